# What this project uses of `llvmlite.ir`, which has no types of its own.
#
# Types say what every object has that this project makes. What is not used is left out: pyright
# then says so of a misspelt name, too.

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

class Type:
    def __call__(self, value: Any) -> Constant: ...
    def as_pointer(self, addrspace: int = 0) -> Type: ...

class VoidType(Type): ...
class FloatType(Type): ...
class DoubleType(Type): ...

class IntType(Type):
    width: int
    def __new__(cls, bits: int) -> Self: ...

class VectorType(Type):
    element: Type
    count: int
    def __init__(self, element: Type, count: int) -> None: ...

class LiteralStructType(Type):
    def __init__(self, elems: Iterable[Type]) -> None: ...

class ArrayType(Type):
    def __init__(self, element: Type, count: int) -> None: ...

class MetaDataType(Type): ...

class FunctionType(Type):
    return_type: Type
    args: Sequence[Type]
    def __init__(self, return_type: Type, args: Iterable[Type], var_arg: bool = False) -> None: ...

Undefined: object

class Value:
    type: Type

class Constant(Value):
    constant: Any  # a number, None or `Undefined`
    def __init__(self, typ: Type, constant: Any) -> None: ...

class Argument(Value):
    def add_attribute(self, attr: str) -> None: ...

class InlineAsm(Value):
    def __init__(
        self, ftype: FunctionType, asm: str, constraint: str, side_effect: bool = False
    ) -> None: ...

class PhiInstr(Value):
    def add_incoming(self, value: Value, block: Block) -> None: ...

class ConditionalBranch(Value):
    module: Module
    def set_metadata(self, name: str, node: MDValue) -> None: ...

class MetaDataString(Value):
    def __init__(self, parent: Module, string: str) -> None: ...

class MDValue(Value):
    operands: tuple[Value, ...]
    def __init__(self, parent: Module, values: Iterable[Value], name: str) -> None: ...

class Block(Value):
    instructions: list[Value]
    @property
    def is_terminated(self) -> bool: ...

class GlobalVariable(Value):
    linkage: str
    global_constant: bool
    initializer: Constant
    def __init__(self, module: Module, typ: Type, name: str, addrspace: int = 0) -> None: ...
    def bitcast(self, typ: Type) -> Value: ...

class Function(Value):
    module: Module
    blocks: list[Block]
    name: str
    ftype: FunctionType
    args: tuple[Argument, ...]
    attributes: set[str]
    linkage: str
    def __init__(self, module: Module, ftype: FunctionType, name: str) -> None: ...
    def append_basic_block(self, name: str = "") -> Block: ...

class Module:
    globals: dict[str, Function]  # functions alone: no module of ours has variables
    metadata: list[MDValue]
    triple: str
    data_layout: str
    @property
    def functions(self) -> list[Function]: ...
    def __init__(self, name: str = "") -> None: ...
    def add_metadata(self, operands: Sequence[Value | str]) -> MDValue: ...
    def get_unique_name(self, name: str = "") -> str: ...
    def declare_intrinsic(
        self, intrinsic: str, tys: Sequence[Type] = (), fnty: FunctionType | None = None
    ) -> Function: ...

class _Unary(Protocol):
    def __call__(self, value: Value, /, name: str = "") -> Value: ...

class _Binary(Protocol):
    def __call__(
        self, lhs: Value, rhs: Value, /, name: str = "", flags: Sequence[str] = ()
    ) -> Value: ...

class _Comparison(Protocol):
    def __call__(self, cmpop: str, lhs: Value, rhs: Value, /, name: str = "") -> Value: ...

class _Cast(Protocol):
    def __call__(self, value: Value, typ: Type, /, name: str = "") -> Value: ...

class IRBuilder:
    block: Block  # every builder of ours has one from the start
    module: Module
    def __init__(self, block: Block) -> None: ...
    @property
    def function(self) -> Function: ...
    def append_basic_block(self, name: str = "") -> Block: ...
    def if_then(
        self, pred: Value, /, *, likely: bool | None = None
    ) -> AbstractContextManager[Block]: ...
    def if_else(
        self, pred: Value, /
    ) -> AbstractContextManager[Sequence[AbstractContextManager[Block]]]: ...
    def position_at_end(self, block: Block) -> None: ...
    def goto_entry_block(self, /) -> AbstractContextManager[None]: ...
    def fneg(self, arg: Value, name: str = "", flags: Sequence[str] = ()) -> Value: ...
    def fmul(self, lhs: Value, rhs: Value, name: str = "", flags: Sequence[str] = ()) -> Value: ...
    def frem(self, lhs: Value, rhs: Value, name: str = "", flags: Sequence[str] = ()) -> Value: ...

    add: _Binary
    sub: _Binary
    mul: _Binary
    sdiv: _Binary
    srem: _Binary
    udiv: _Binary
    urem: _Binary
    fadd: _Binary
    fsub: _Binary
    shl: _Binary
    ashr: _Binary
    lshr: _Binary
    and_: _Binary
    or_: _Binary
    xor: _Binary
    neg: _Unary
    not_: _Unary
    icmp_signed: _Comparison
    icmp_unsigned: _Comparison
    fcmp_ordered: _Comparison
    fcmp_unordered: _Comparison
    bitcast: _Cast
    trunc: _Cast
    sext: _Cast
    zext: _Cast
    fptrunc: _Cast
    fpext: _Cast
    fptosi: _Cast
    fptoui: _Cast
    sitofp: _Cast
    uitofp: _Cast
    inttoptr: _Cast
    ptrtoint: _Cast

    def select(self, cond: Value, lhs: Value, rhs: Value, name: str = "") -> Value: ...
    def alloca(self, typ: Type, size: Value | int | None = None, name: str = "") -> Value: ...
    def load(self, ptr: Value, name: str = "", align: int | None = None) -> Value: ...
    def store(self, value: Value, ptr: Value, align: int | None = None) -> Value: ...
    def gep(self, ptr: Value, indices: Sequence[Value], inbounds: bool = False) -> Value: ...
    def extract_element(self, vector: Value, idx: Value) -> Value: ...
    def insert_element(self, vector: Value, value: Value, idx: Value) -> Value: ...
    def shuffle_vector(self, vector1: Value, vector2: Value, mask: Value) -> Value: ...
    def phi(self, typ: Type, name: str = "") -> PhiInstr: ...
    def call(
        self, fn: Value, args: Sequence[Value], name: str = "", *, fastmath: Sequence[str] = ()
    ) -> Value: ...
    def branch(self, target: Block) -> Value: ...
    def cbranch(self, cond: Value, truebr: Block, falsebr: Block) -> ConditionalBranch: ...
    def ret(self, value: Value) -> Value: ...
    def ret_void(self) -> Value: ...
    def extract_value(self, agg: Value, idx: int, name: str = "") -> Value: ...
    def load_atomic(self, ptr: Value, ordering: str, align: int, name: str = "") -> Value: ...
    def atomic_rmw(
        self, op: str, ptr: Value, val: Value, ordering: str, name: str = ""
    ) -> Value: ...
    def cmpxchg(
        self,
        ptr: Value,
        cmp: Value,
        val: Value,
        ordering: str,
        failordering: str | None = None,
        name: str = "",
    ) -> Value: ...
    def unreachable(self) -> Value: ...

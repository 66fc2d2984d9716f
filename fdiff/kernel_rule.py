"""Kernel rules: kinds of operations of a kernel graph, and the rule on the record of an op.

A pass over a kernel graph knows an operation by its `Kind`, never by the name of an op. The kinds
are few: what passes treat alike is one kind. Elementwise ops, of which there are hundreds, are of
the kind ``ELEMENTWISE``, but those whose algebra a pass uses (a sum of terms, a product, a sign).
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Self

from .named_tuples import NamedTuple


class Category(Enum):
    """Categories of the kinds of operations."""

    LEAF = auto()  # read from memory or written as a number: nothing is computed
    NUMBERING = auto()  # an entry follows from its place alone
    ELEMENTWISE = auto()  # an entry is an expression of the operands' entries there
    VIEW = auto()  # an entry of the operand, met at another index
    LOOKUP = auto()  # an entry of the operand, at an index that is read from memory
    SCATTER = auto()  # zeros, to which the operand is added at other places
    STORE = auto()  # the first operand, with other entries at some places
    JOIN = auto()  # the operands side by side in one array
    REDUCTION = auto()  # axes are folded into one entry
    EXTREMUM = auto()  # where along an axis the extreme entry is
    SCAN = auto()  # running totals along an axis
    PRODUCT = auto()  # sums of products, which a pass makes a loop nest or a routine's call of
    SYSTEM = auto()  # equations, which a pass makes a routine's call of
    ROUTINE = auto()  # a call of a routine of `kernels/runtime`, from memory to memory
    CONTROL = auto()  # runs bodies, which are graphs of their own, from memory to memory
    RESULT = auto()  # one of several results of a routine


_BOTH = frozenset([Category.SCATTER, Category.STORE, Category.JOIN, Category.SCAN, Category.RESULT])
_IN_MEMORY = _BOTH | {Category.REDUCTION, Category.EXTREMUM, Category.PRODUCT}
_CALLED = frozenset([Category.ROUTINE, Category.CONTROL])
_PIECEWISE = _BOTH | _CALLED


class Kind(StrEnum):
    """Kinds of operations of a kernel graph; the value is the name in comments of kernels."""

    INPUT = "input", Category.LEAF
    ARRAY = "array", Category.LEAF  # a constant array, which the kernel is called with
    VALUE = "value", Category.LEAF  # a number
    IOTA = "iota", Category.NUMBERING

    ELEMENTWISE = "elementwise", Category.ELEMENTWISE
    ADD = "add", Category.ELEMENTWISE
    SUBTRACT = "subtract", Category.ELEMENTWISE
    MULTIPLY = "multiply", Category.ELEMENTWISE
    DIVIDE = "divide", Category.ELEMENTWISE
    NEGATIVE = "negative", Category.ELEMENTWISE
    MAXIMUM = "maximum", Category.ELEMENTWISE
    MINIMUM = "minimum", Category.ELEMENTWISE
    LOGICAL_OR = "logical_or", Category.ELEMENTWISE
    LOGICAL_AND = "logical_and", Category.ELEMENTWISE
    SELECT = "where", Category.ELEMENTWISE
    MASKED = "masked", Category.ELEMENTWISE  # -0.0 where a product is to leave a term out
    CONVERT = "convert", Category.ELEMENTWISE  # to another dtype
    COPY = "copy", Category.ELEMENTWISE  # the operand, in memory in row-major order
    BARRIER = "barrier", Category.ELEMENTWISE  # the first operand, computed after the second

    RESHAPE = "reshape", Category.VIEW
    TRANSPOSE = "transpose", Category.VIEW
    BROADCAST = "broadcast_to", Category.VIEW
    SLICE = "slice", Category.VIEW
    GATHER = "gather", Category.LOOKUP

    UNSLICE = "unslice", Category.SCATTER  # the transpose of a slice
    SCATTER_ADD = "scatter_add", Category.SCATTER  # the transpose of a gather
    UPDATE = "update", Category.STORE  # into a slice
    SCATTER_SET = "scatter_set", Category.STORE  # at places read from memory
    CONCATENATE = "concatenate", Category.JOIN
    PLACE = "place", Category.JOIN  # each operand at a start and step on every axis

    SUM = "sum", Category.REDUCTION
    PROD = "prod", Category.REDUCTION
    MAX = "max", Category.REDUCTION
    MIN = "min", Category.REDUCTION
    ANY = "any", Category.REDUCTION
    ALL = "all", Category.REDUCTION
    ARGMAX = "argmax", Category.EXTREMUM
    ARGMIN = "argmin", Category.EXTREMUM
    CUMSUM = "cumsum", Category.SCAN
    CUMPROD = "cumprod", Category.SCAN
    CUMMAX = "cummax", Category.SCAN
    RECURRENCE = "recurrence", Category.SCAN  # s[i] = a[i] * s[i-1] + b[i]

    CONTRACT = "contract", Category.PRODUCT  # two operands, by subscripts as in `numpy.einsum`
    TRIANGULAR_SYSTEM = "solve_triangular", Category.SYSTEM
    ROUTINE = "routine", Category.ROUTINE
    SOLVE = "solve", Category.ROUTINE
    CHOLESKY = "cholesky", Category.ROUTINE
    MATMUL = "matmul", Category.ROUTINE
    LOOP = "loop", Category.CONTROL  # a body, once for each row
    WHILE = "while", Category.CONTROL  # a body, as long as a condition is true
    SWITCH = "switch", Category.CONTROL  # one of several bodies
    ITEM = "item", Category.RESULT

    category: Category
    is_leaf: bool
    is_elementwise: bool
    is_view: bool
    is_scatter: bool
    is_store: bool
    is_reduction: bool
    is_extremum: bool
    is_scan: bool
    is_routine: bool  # a call, of a routine or of bodies
    in_memory: bool  # its result always lies in memory
    is_piecewise: bool  # a loop over its entries does not write them all, each once

    def __new__(cls, label: str, category: Category) -> Self:
        self = str.__new__(cls, label)
        self._value_, self.category = label, category
        self.is_leaf = category is Category.LEAF
        self.is_elementwise = category is Category.ELEMENTWISE
        self.is_view = category is Category.VIEW
        self.is_scatter = category is Category.SCATTER
        self.is_store = category is Category.STORE
        self.is_reduction = category is Category.REDUCTION
        self.is_extremum = category is Category.EXTREMUM
        self.is_scan = category is Category.SCAN
        self.is_routine = category in _CALLED
        self.in_memory = category in _IN_MEMORY
        self.is_piecewise = category in _PIECEWISE or label == "array"
        return self

    __repr__ = str.__repr__  # graphs are keyed on disk by their text


class Routine(NamedTuple):
    """A routine of `kernels/runtime`: it computes an op for a stack of matrices, memory to memory.

    It is called with the operands, the results and its scratch space, then the number of matrices
    and their order, and with `columns` the last size of the result.
    """

    name: str  # without the dtype, which is the last result's
    scratch: int = 0  # matrices, as large as one of the first operand, that it needs room for
    scratch_dtype: str = ""  # their dtype; by default the first operand's
    columns: bool = False
    broadcast: bool = False  # operands are broadcast to the shape of the result first
    inline: int = 0  # the order up to which code generation writes it out, where that is known


COMPLEX = "c16"


class ComplexFormula(NamedTuple):
    """How bytecode, and loops in kernels, compute an elementwise op on complex numbers.

    `before` are lines of code, `parts` expressions of the real and the imaginary part of the result
    (one if it is real). Operand `k` is ``f<k>`` if real, ``u<k>`` and ``v<k>`` if complex, ``t<k>``
    if a truth value and ``n<k>`` if whole.
    """

    reads: tuple[str, ...]  # dtypes
    parts: tuple[str, ...]
    before: tuple[str, ...] = ()

    @property
    def gives(self) -> str:
        """Dtype of the result."""
        return COMPLEX if len(self.parts) == 2 else "f8"


class KernelStep(NamedTuple):
    """One expression of an elementwise op that has several, which a kernel computes in turn.

    The expression is in ``{0}``, ``{1}``, ... for the values `args`: the operands of the op by
    number, then the address if the rule has one, then the results of the steps before. `dtype` is
    the dtype of the result; empty stands for the dtype of the op's result, which the operands have
    too.
    """

    text: str
    args: tuple[int, ...]
    dtype: str = ""


class CAddress(NamedTuple):
    """The address of a C function in this process, and the object that keeps it valid."""

    value: int
    owner: object


class KernelRule(NamedTuple):
    """How a kernel computes an op, on the op's record.

    - `text`, of an elementwise op, is the expression of an entry, in ``{0}``, ``{1}``, ... for the
      operands' entries and ``{T}``, the NumPy name of the result's dtype;
    - `constants` are shorter texts for values of the second operand that stand in the tape;
    - `literals` are values of the second operand that stand in the text as they are;
    - `mixed_signs` are two other texts, for operands of 64 bits of which the first, or the second,
      has a sign and the other has none: texts go through float64 there, as Numba's arithmetic does;
    - `checks_whole` tells that NumPy looks at whole numbers before it takes them, so that bytecode
      leaves them to NumPy;
    - `routine` is what computes an op of the category ``routine``;
    - `steps` stand in place of `text` where an entry takes several expressions;
    - `address` is the C function that the steps call: a number of the kernel's tables, not of its
      text, because it is another one in each process.
    """

    kind: Kind
    text: str = ""
    constants: tuple[tuple[float, str], ...] = ()
    literals: tuple[float, ...] = ()
    checks_whole: bool = False
    routine: Routine | None = None
    steps: tuple[KernelStep, ...] = ()
    address: CAddress | None = None
    mixed_signs: tuple[str, str] | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The expressions of an entry."""
        return tuple([step.text for step in self.steps]) or (self.text,)

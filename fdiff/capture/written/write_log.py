"""The writes of a run to the outside, as a function that repeats them after every later run.

While `f` is traced, each of its writes is recorded as a line of Python: a store into the dict of an
object, an item appended to a list. The written values are constants, outputs of the tape, numbers
that `f` reads in the same place, and tuples, lists and dicts of these. At the end the lines become
two functions, bound to the user's objects when these are found: `before` a run, the numbers that
`f` reads and writes again are read, and its decisions by them are compared; `after` the run, all
values are written in order. A write without such a line makes the whole trace hold for a single
call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import suppress
from types import CellType, FrameType
from typing import cast

import fdiff.intact_numpy as np

from ...foreign_errors import contextmanager
from ...generated_text import defined
from ..dependency_nodes import Array, Attributes
from ..formatted_texts import MARK, FormattedValue, goes_to, parts
from ..printing_functions import Shown, is_logger, shows_text
from ..proxies.object_proxy import slot_dict, slots
from ..proxy_context import Resolve
from ..revalidation import Dependency
from ..symbolic_numbers import SymbolicNumber
from ..value_kinds import MISSING, SCALARS, item_key, record_class
from .traced_value_release import NoValueError
from .write_programs import After, Before, Effects, ProgramText
from .write_targets import NoEffectError, NumberRead, WritePlace, WriteTarget, WrittenOutput

EXACT = 2**53  # integers below are floats without rounding
STACKED = 8  # from so many numbers of one dtype on, the tape gives them as one array


class WriteLog:
    """Records the writes of one run, line by line.

    ``output(value)`` gives the output that a traced value is, or None; ``node(value)`` the node of
    the user's object behind a proxy; ``class_of(value)`` the user's class of an object that the run
    has made; ``enter(value, type)`` a new input of the tape.
    """

    def __init__(
        self,
        output: Callable[[object], WrittenOutput | None],
        node: Callable[[object], Dependency | None],
        class_of: Callable[[object], type | None],
        enter: Callable[[float, type], tuple[NumberRead, object]],
    ) -> None:
        self._output = output
        self._class_of = class_of
        self._enter = enter
        self._inputs: dict[str, tuple[NumberRead, object]] = {}
        self._node = node
        self._names: dict[str, object] = {"MISSING": MISSING}
        self._targets: dict[int, tuple[str, WriteTarget]] = {}
        self._loads: list[tuple[str, str, NumberRead]] = []  # variable, text, what it must be
        self._conditions: dict[str, bool] = {}  # whether the run has decided something by it
        self._fixed: list[str] = []  # expressions that have to give the same number
        self._made: dict[int, tuple[str, object]] = {}  # what the run made, by id
        self._values: list[str] = []
        self._stores: list[str] = []
        self.outputs: list[WrittenOutput] = []
        self._filled: list[Array] = []
        self._formatted: list[FormattedValue] = []

    # ----------------------------------------------------------------------------------- reads

    def condition(self, text: str) -> None:
        """Note what the run has decided, which must hold for the trace to be used again."""
        self._conditions[text] = True

    def fix(self, text: str, value: float) -> None:
        """Note that an expression has to give this number again."""
        self.condition(f"{text} == {self.constant(value)}")
        self._fixed.append(text)

    def is_fixed(self, read: object) -> bool:
        """Whether a number that is read has to be the same again."""
        names = [name for name, _, load in self._loads if load is read]
        return any(re.search(rf"\b{name}\b", text) for name in names for text in self._fixed)

    def input(self, text: str, value: float) -> object | None:
        """The input of the tape that an integer is, by the text of its expression."""
        if abs(value) >= EXACT:
            return None
        if text not in self._inputs:
            self._conditions.setdefault(f"-{EXACT} < {text} < {EXACT}", False)
            read, entered = self._enter(value, float)
            self._inputs[text] = read, entered
        return self._inputs[text][1]

    def result(self, text: str, value: float) -> None:
        """No integer is a result of the tape."""

    def summands(self, text: str, value: float) -> None:
        """The number is none of a loop's."""

    def constant(self, value: object) -> str:
        """The name of a constant."""
        if type(value) in {str, int, bool, type(None)}:
            return repr(value)
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name

    def target(self, node: WriteTarget) -> str:
        """The variable for the object that a node stands for."""
        if id(node) not in self._targets:
            self._targets[id(node)] = f"t{len(self._targets)}", node
            node.written = True
        return self._targets[id(node)][0]

    def _text(self, place: WritePlace, text: str, value: str = "") -> str:
        return text.format(t=self.target(place.node), k=self.constant(place.key), v=value)

    def read(self, place: WritePlace, read: NumberRead) -> str:
        """The variable for a number that is read in a place at each call."""
        name = f"v{len(self._loads)}"
        self._loads.append((name, self._text(place, place.load), read))
        return name

    # ---------------------------------------------------------------------------------- writes

    def write(self, place: WritePlace, value: object) -> None:
        """Note a store, or with MISSING that something was deleted."""
        if value is MISSING:
            self._stores.append(self._text(place, place.delete))
        else:
            self._stores.append(self._text(place, place.store, self.expression(value)))

    def call(self, node: WriteTarget, calls: Iterable[tuple[str, Sequence[object]]]) -> None:
        """Note calls of methods of a container; items that are appended in a row are one call."""
        name, row = self.target(node), list[str]()
        for method, args in calls:
            texts = [self.expression(value) for value in args]
            if method == "append":
                row += texts
                continue
            self._append(name, row)
            self._stores.append(f"{name}.{method}({', '.join(texts)})")
        self._append(name, row)

    def _append(self, name: str, row: list[str]) -> None:
        if row:
            self._stores.append(
                f"{name}.append({row[0]})"
                if len(row) == 1
                else f"{name}.extend(({', '.join(row)}))"
            )
            row.clear()

    def expression(self, value: object) -> str:
        """Text that gives the value anew."""
        kind = type(value)
        if kind in SCALARS or isinstance(value, np.generic):
            return self.constant(value)
        if isinstance(value, SymbolicNumber):
            return value.text if value.belongs_to(self) else self._sum(value.summands())
        if id(value) in self._made:
            return self._made[id(value)][0]
        if (node := self._node(value)) is not None:
            if isinstance(node, WriteTarget):
                return self.target(node)
            raise NoEffectError
        if (output := self._output(value)) is not None:
            return self._of_output(value, output)
        return self._of_container(value, kind)

    def _sum(self, parts: list[object] | None) -> str:
        """Text that adds numbers, some of which loops have counted."""
        if parts is None:
            raise NoEffectError
        return f"({' + '.join(map(self.expression, parts))})"

    def _of_output(self, value: object, output: WrittenOutput) -> str:
        self.outputs.append(output)
        text = f"o{len(self.outputs) - 1}"
        return self._variable(value, text) if output.kind == "copy" else text

    def fill(self, node: Array, value: object) -> None:
        """Note that all entries of an array are replaced by the entries of a traced array."""
        if (output := self._output(value)) is None:
            raise NoEffectError
        self._stores.append(f"{self.target(node)}[...] = {self._of_output(output, output)}")
        self._filled.append(node)

    def _of_container(self, value: object, kind: type) -> str:
        if isinstance(value, tuple):
            items = "".join([f"{self.expression(x)}, " for x in cast("tuple[object, ...]", value)])
            return (
                f"({items})"
                if kind is tuple
                else f"tuple.__new__({self.constant(kind)}, ({items}))"
            )
        if kind in {list, set, frozenset}:
            items = "".join([f"{self.expression(x)}, " for x in cast("list[object]", value)])
            return self._variable(
                value, f"[{items}]" if kind is list else f"{kind.__name__}(({items}))"
            )
        if kind is dict:
            pairs = cast("dict[object, object]", value).items()
            items = ", ".join([f"{self.expression(k)}: {self.expression(v)}" for k, v in pairs])
            return self._variable(value, f"{{{items}}}")
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            return self._variable(value, f"{self.constant(np.array(value))}.copy()")
        real = kind if record_class(kind) else self._class_of(value)
        if real is None:
            raise NoEffectError
        name = self._variable(value, f"object.__new__({self.constant(real)})")
        for key, part in (*slot_dict(value).copy().items(), *slots(value)):
            self._values.append(f"object.__setattr__({name}, {key!r}, {self.expression(part)})")
        return name

    def _variable(self, value: object, text: str) -> str:
        """A variable for an object that the run made: one object, wherever it is stored."""
        name = f"w{len(self._made)}"
        self._made[id(value)] = name, value
        self._values.append(f"{name} = {text}")
        return name

    # ----------------------------------------------------------------------------------- texts

    def formatted(self, value: object, spec: str, text: str, frame: FrameType) -> str | None:
        """The mark for a value in an f-string that is shown; None where it may go elsewhere."""
        if not goes_to(frame, shows_text):
            return None
        self._formatted.append(FormattedValue(value, spec, text))
        return f"\0fdiff:{len(self._formatted) - 1}\0"

    def rendered(self, text: str) -> str:
        """A text with the values of this run in place of marks."""
        return MARK.sub(lambda match: self._formatted[int(match[1])].text, text)

    def shown_now(self, value: object, settle: Resolve) -> object:
        """The value with numbers and texts of this run in place of their symbols."""
        kind = type(value)
        if isinstance(value, Shown):
            return value._fdiff_real
        if isinstance(value, SymbolicNumber):
            return value.value
        if kind is str:
            return self.rendered(cast("str", value))
        if kind in {tuple, list}:
            return kind([self.shown_now(item, settle) for item in cast("list[object]", value)])
        if kind is dict:
            pairs = cast("dict[object, object]", value).items()
            return {self.shown_now(k, settle): self.shown_now(v, settle) for k, v in pairs}
        with suppress(NoValueError):
            return settle(value)
        return value

    def show(self, call: object, args: Sequence[object], kwargs: dict[str, object]) -> None:
        """Note a call that shows values as they are now."""
        created, self._made = self._made, {}  # what the run has made may change until it is stored
        try:
            texts = [self._as_shown(value) for value in args]
            texts += [f"{name}={self._as_shown(value)}" for name, value in kwargs.items()]
        finally:
            self._made = created
        self._values.append(f"{self.constant(call)}({', '.join(texts)})")

    def _as_shown(self, value: object) -> str:
        """Text that gives what is shown: numbers, texts, arrays, and containers of them."""
        if type(value) is str and MARK.search(value):
            pieces = [self._piece(piece) for piece in parts(value)]
            return f"({' + '.join(pieces)})"
        if isinstance(value, tuple) and type(value) is tuple:
            return f"({''.join([f'{self._as_shown(item)}, ' for item in value])})"
        if isinstance(value, Shown):
            return self.constant(value._fdiff_real)
        if is_logger(value):
            return self.constant(value)
        if self._node(value) is None:
            return self.expression(value)
        raise NoEffectError

    def _piece(self, piece: str | int) -> str:
        if isinstance(piece, str):
            return repr(piece)
        value, spec, _ = self._formatted[piece]
        return f"format({self.expression(value)}, {spec!r})"

    @contextmanager
    def relying_on_nothing(self) -> Generator[None]:
        """A context in which numbers are shown, so that the trace does not depend on them."""
        conditions, fixed = dict(self._conditions), [*self._fixed]
        try:
            yield
        finally:
            self._conditions, self._fixed = conditions, fixed

    # --------------------------------------------------------------------------------- the end

    def some(self) -> bool:
        """Whether anything is to be done at each call."""
        return bool(self._stores or self._values or self._loads)

    def targets(self) -> Collection[WriteTarget]:
        """The nodes of objects that are written to."""
        return [node for _, node in self._targets.values()]

    def finish(self) -> Effects:
        """The two functions, to be bound to the objects."""
        loads = [f"{name} = {text}" for name, text, _ in self._loads]
        checks, names = [], dict(self._names)
        for name, _, read in self._loads:
            names[f"{name}_type"] = read.type
            checks.append(f"if type({name}) is not {name}_type: return False")
        checks += [f"if not ({text}): return False" for text in self._conditions]
        inputs = [(name, read) for name, _, read in self._loads if read.buffer is not None]
        inputs += [(text, read) for text, (read, _) in self._inputs.items()]
        for k, (text, read) in enumerate(inputs):
            names[f"b{k}"] = read.buffer
            checks.append(f"b{k}[...] = {text}")
        outputs, results, nodes = self._grouped()
        before = [*loads, *checks, "return True"]
        after = self._with_loads([*results, *self._values, *self._stores])
        lines = [f"def bind({', '.join(t for t, _ in self._targets.values())}):"]
        lines += [" def before(_):", "  try:", *[f"   {line}" for line in before]]
        lines += [
            "  except (ArithmeticError, AttributeError, LookupError, ValueError): return False"
        ]
        parameters = ", ".join(["result", *outputs])
        lines += [f" def after({parameters}):", *[f"  {line}" for line in after], "  return result"]
        lines += [" return before, after"]
        bind: Callable[..., tuple[Before, After]] = defined("bind", lines, names)
        reads = tuple([read for _, read in inputs])
        cells = any(isinstance(n, Attributes) and n.type is CellType for n in self.targets())
        return Effects(
            bind, self._program(before), self._program(after), any(self._conditions.values()),
            tuple(self.targets()), reads, nodes, tuple(self._filled), cells,
        )  # fmt: skip

    def _with_loads(self, lines: list[str]) -> list[str]:
        """The lines, after the loads that they use; others were checked before the run."""
        for name, text, _ in reversed(self._loads):
            if any(re.search(rf"\b{name}\b", line) for line in lines):
                lines = [f"{name} = {text}", *lines]
        return lines

    def _program(self, lines: Sequence[str]) -> ProgramText:
        """The lines of a function, to be compared with the lines of another run."""
        text = "\n".join(lines)
        names = dict.fromkeys(re.findall(r"\b[ct]\d+\b", text))
        constants = tuple([item_key(self._names[name]) for name in names if name in self._names])
        numbers = [int(name[1:]) for name in names if name[0] == "t"]
        return ProgramText(text, constants, tuple([k for k in numbers if k < len(self._targets)]))

    def _taken_apart(self, variables: list[str], entries: str) -> list[str]:
        """The line that takes many numbers apart; none where all are appended to a list at once."""
        together = ", ".join(variables)
        for k, line in enumerate(self._stores):
            if line.endswith(f".extend(({together}))"):
                self._stores[k] = line.replace(f"(({together}))", f"({entries})")
                return []
        return [f"{together} = {entries}"]

    def _grouped(self) -> tuple[list[str], list[str], tuple[tuple[int, ...], ...]]:
        """The arguments of `after`, the lines that take them apart, and the nodes of each."""
        groups: dict[object, list[int]] = {}
        for k, (_, dtype, kind) in enumerate(self.outputs):
            groups.setdefault(k if kind == "copy" else (dtype, kind), []).append(k)
        names, lines, nodes = list[str](), list[str](), list[tuple[int, ...]]()
        for members in groups.values():
            kind, variables = self.outputs[members[0]].kind, [f"o{k}" for k in members]
            if len(members) < STACKED:
                names += variables
                lines += [_RESULT[kind].format(variable) for variable in variables]
                nodes += [(self.outputs[k].node,) for k in members]
            else:
                name = f"g{members[0]}"
                names.append(name)
                entries = f"{name}.tolist()" if kind == "item" else name
                lines += self._taken_apart(variables, entries)
                nodes.append(tuple([self.outputs[k].node for k in members]))
        return names, lines, tuple(nodes)


_RESULT = {"item": "{0} = {0}.item()", "scalar": "{0} = {0}[()]", "copy": "{0} = {0}.copy()"}

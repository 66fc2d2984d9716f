"""One run of a watched function: its reads from outside itself, and its writes.

The input is a function. The output is the callable to run in its place, and its `Dependencies`
after the run. `f` runs as a private copy (`function_copies.py`) that finds proxies of all values.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Generator, Mapping
from types import MethodType
from typing import TYPE_CHECKING, cast

import fdiff.intact_numpy as np

from ..foreign_errors import contextmanager
from .dependencies import Dependencies
from .dependency_nodes import (
    ABSENT,
    Array,
    ArrayOnDevice,
    ConstantArray,
    Equal,
    Identical,
    MappingItems,
)
from .function_copies import FunctionCopies
from .impure_functions import Impurities
from .non_numeric_data import Content, data_key, refuse_lazy
from .proxies.class_proxies import Super, can_be_proxied, exception_node
from .proxies.container_proxies import DictProxy, wrap_data
from .proxies.module_proxies import GlobalsProxy
from .proxies.proxy_rules import BY_TYPE, rule_by_question
from .proxies.user_objects import UserObjects
from .proxy_context import CachedProperty, Copy, Pair, Resolve, Where, itself, label, opaque, plain
from .replaced_methods import LibraryMethods
from .revalidation import Dependency
from .symbolic_numbers import SymbolicNumber, plain_number
from .value_kinds import (
    MISSING,
    SCALARS,
    constant_of,
    is_user_function,
    traced_within,
    unchanging_class,
)
from .written.repeated_writes import RepeatedWrites
from .written.state_rollback import KeptState
from .written.traced_value_release import NoValueError, is_instance
from .written.write_targets import RecordedTape, WritePlace, WriteTarget
from .written.writes import ContainerCopy, OutsidePlaces

if TYPE_CHECKING:
    from .proxies.list_proxies import ListProxy

Function = Callable[..., object]


class Capture:
    """Reads and writes of one traced run of `f` outside of itself, in one thread.

    - ``handle(array)`` is called once for each captured array and gives its proxy;
    - ``answers(value)`` gives the replacement of an object or function of NumPy, SciPy or Python:
      as a rule the object itself;
    - ``settle(value)`` gives the value that replaces a traced array which the run has stored in the
      user's variables and objects; it may raise NoValueError;
    - ``plainly(call)`` gives the result of a call that runs as if there were no trace, or MISSING
      if it cannot;
    - ``depends(value)`` tells whether a derivative is taken for a traced value;
    - `call` is the public call, for messages;
    - `tape` has inputs for numbers and outputs for writes, if later calls may use the trace;
    - ``denies()`` tells whether dicts should miss a key that a differentiated value made;
    - a `tentative` run leaves nothing behind.

    `refused` are places that were to keep a traced value without a number, `overlapping` arrays
    that were written to and share memory with others.
    """

    def __init__(
        self,
        handle: Callable[[object], object],
        answers: Resolve = itself,
        settle: Resolve = itself,
        plainly: Resolve = plain,
        depends: Callable[[object], bool] = lambda _: False,
        tape: RecordedTape | None = None,
        call: str = "",
        denies: Callable[[], bool] = lambda: False,
        *,
        tentative: bool = False,
    ) -> None:
        self.answer = answers
        self.call = call
        self.settle = settle
        self.plainly = plainly
        self.depends = depends
        self.denies, self.state = denies, KeptState(tentative=tentative)
        self.running = True
        self.refused: list[tuple[str, object]] = []
        self.overlapping: list[str] = []
        self._handle = handle
        self._traced = False  # whether a value of an enclosing trace was read
        self._carried_over = False
        self._roots: list[tuple[object, Dependency]] = []
        self._tables: dict[int, tuple[object, MappingItems]] = {}  # namespaces, by id
        self._known: dict[int, tuple[object, Dependency, object]] = {}  # id -> proxy, node, value
        self._originals: dict[int, tuple[object, object]] = {}  # id of a proxy -> value, proxy
        self.impurities = Impurities()
        self.note, self._methods = self.impurities.note, LibraryMethods(self.impurities)
        self.meet, codes = self._methods.meet, self.impurities.codes
        self._places = OutsidePlaces()
        self.arrays = self._places.arrays  # that are captured
        self.stores = self._places.stores
        self.functions = FunctionCopies(self, codes, self._places.cells)
        self.objects = UserObjects(self)
        self.repeats = RepeatedWrites(self, codes, self._numbered, tape, self._node_of, handle)

    def private(self, f: Function) -> Function:
        """The private copy of `f`."""
        self.repeats.begin(f)
        proxy, node = self.wrap(f, getattr(f, "__name__", "f"))
        call = getattr(type(f), "__call__", None)  # noqa: B004 - the class's own method is wanted
        if proxy is f and is_user_function(call):
            proxy = MethodType(cast("Function", self.wrap(call, "__call__")[0]), f)
        self._roots.append((f, node))
        call, adopt = cast("Function", proxy), self.objects.adopt

        def run(*args: object, **keywords: object) -> object:
            return call(*map(adopt, args), **{k: adopt(v) for k, v in keywords.items()})

        return run

    def stop_repeating(self) -> None:
        """Later calls do not repeat the writes of this run: the trace runs other functions too."""
        self.repeats.stop()
        for items in self._places.lists:
            items.whole()

    def discard(self) -> bool:
        """Drop the writes of the run to proxies, if it found inputs in place of numbers there.

        Returns False if the run has already written to the outside.
        """
        if not self.repeats.speculates or self.repeats.direct or self.impurities.noted:
            return False
        self._carried_over = True
        return True

    def written_places(self) -> set[str]:
        """The places that the run has stored something in, as the user names them."""
        return {*self._places.written_places(), *self.objects.written_places()}

    def forget(self) -> None:
        """Drop what a tentative run has written."""
        self._carried_over = True
        self.state.restore()
        self._places.release_shared(self.objects.release, self._refusing)

    def finish(self) -> Dependencies:
        """The dependencies of the run; called when `f` has returned or raised."""
        if not self._carried_over:
            self.carry_over()
        classes = self.objects.finish()
        fixed = [*self._roots[1:], *self._tables.values(), *classes, *self._methods.reads()]
        if self.impurities.finish():
            self.repeats.stop()
        effects = self.repeats.finish([node for _, node in (*self._roots[:1], *fixed)])
        reads = Dependencies(
            len(self._places.arrays),
            self.impurities.finish(),
            traced=self._traced,
            root=self._roots[0] if self._roots else (MISSING, ABSENT),
            fixed=fixed,
            effects=effects,
            once=self.repeats.once,
        )
        self.running = False
        self._handle = itself  # for functions that outlive the run
        for globals_ in self._places.globals.values():
            globals_.forget()
        for memory in (self._known, self._originals, self._places.cells, self._places.shared):
            memory.clear()
        return reads

    # ---------------------------------------------------------------------------------- proxies

    def wrap(self, value: object, where: Where) -> Pair:
        """The proxy of `value`, named `where` by the user, and the condition on the value later."""
        if type(value := plain_number(value)) in SCALARS:
            return value, Equal(value)
        if (entry := self._known.get(id(value))) is not None:
            return entry[:2]
        if (pair := self.repeats.shown(value)) is not None:
            self.keep(value, *pair)
            return pair
        if "dask" in sys.modules:
            refuse_lazy(value, self.call, f"`{label(where)}`")
        if self.meet(value):
            return opaque(self, value, where, "what stands in place of methods of")
        if (proxy := self.answer(value)) is not value:
            self._originals[id(proxy)] = value, proxy
            return proxy, Identical(value)
        rule = BY_TYPE.get(type(value)) or rule_by_question(value)
        proxy, node = rule(self, value, where)
        self.keep(value, proxy, node)
        return proxy, node

    def read(self, value: object, where: Where, place: WritePlace) -> Pair:
        """As `wrap`, for the value in a place that the run may write to."""
        if (pair := self.repeats.number(value, where, place)) is not None:
            return pair
        return self.wrap(value, where)

    def wrap_array(self, array: np.ndarray, where: Where) -> Pair:
        """The traced array that stands for an array of numbers; other arrays are data."""
        if array.dtype.kind not in "biufc":
            if data_key(array) is not None:
                return wrap_data(self, array, where)
            return opaque(self, array, where, f"the array of dtype {array.dtype}")
        node = Array(self._numbered(array, where), array)
        return self._handle(array), node

    def wrap_constant(self, value: object, where: Where) -> Pair:
        """The traced array that stands for an object that is an array of numbers to the user."""
        array = constant_of(value)
        assert array is not None, "asked before"
        node = ConstantArray(self._numbered(array, where), value, array)
        return self._handle(array), node

    def _numbered(self, array: object, where: Where) -> int:
        """The number of one more captured array."""
        self._places.arrays.append(array)
        self._places.named.append(where)
        return len(self._places.arrays) - 1

    def wrap_device_array(self, array: object, where: Where) -> Pair:
        """The traced array that stands for an array of another library, on a GPU."""
        node = ArrayOnDevice(self._numbered(array, where), array)
        return self._handle(array), node

    def wrap_traced(self, value: object) -> Pair:
        """A value of an enclosing trace as it is: the program holds for this run alone."""
        self._traced = True
        return value, Identical(value)

    def wrap_class(self, kind: type, where: Where) -> Pair:
        """The proxy of a class of the user, if it can have one."""
        if kind is super:
            return Super, Identical(kind)
        if can_be_proxied(kind):
            return self.objects.of_class(kind, where)
        if unchanging_class(kind):
            return kind, Identical(kind)
        if (node := exception_node(kind)) is not None:
            return kind, node
        return opaque(self, kind, where, "attributes of the class")

    def keep(self, value: object, proxy: object, node: Dependency) -> None:
        """Remember the proxy of a value, and the condition on the value."""
        self._known[id(value)] = proxy, node, value
        if proxy is not value:
            self._originals[id(proxy)] = value, proxy

    def original(self, value: object) -> object:
        """The user's own object behind a proxy."""
        if isinstance(value, SymbolicNumber):
            return value.value
        if type(value) is tuple:
            items = cast("tuple[object, ...]", value)
            originals = tuple(map(self.original, items))
            return originals if any(map(operator.is_not, originals, items)) else value
        if self.made(value):
            self.objects.made.append(value)
        return self._originals.get(id(value), (value,))[0]

    def _node_of(self, value: object) -> Dependency | None:
        """The dependency node of the user's object behind a proxy."""
        original = self._originals.get(id(value), (value,))[0]
        entry = self._known.get(id(original))
        return entry[1] if entry is not None and entry[0] is value else None

    def made(self, value: object) -> bool:
        """Whether `value` is an object that the run has made itself."""
        return is_instance(value) and id(value) not in self._originals

    def table(self, real: Mapping[str, object]) -> MappingItems:
        """The reads of a namespace, one object for each run."""
        if (entry := self._tables.get(id(real))) is None:
            entry = self._tables[id(real)] = real, MappingItems(type(real))
        return entry[1]

    def namespace(self, real: dict[str, object]) -> GlobalsProxy:
        """The private globals of a module; one for a run."""
        if (proxy := self._places.globals.get(id(real))) is None:
            proxy = self._places.globals[id(real)] = GlobalsProxy(self, real)
        return proxy

    def cached(self, instance: object, member: CachedProperty) -> object:
        """The value of a cached property."""
        return self.objects.cached(instance, member)

    def import_(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - Python's name
        locals: Mapping[str, object] | None = None,  # noqa: A002 - Python's name
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> object:
        """Stands for ``__import__``."""
        real = globals.real if isinstance(globals, GlobalsProxy) else globals
        module = __import__(name, real, locals, fromlist, level)
        key = getattr(module, "__name__", name.partition(".")[0])  # anything may stand there
        proxy, node = self.wrap(module, key)
        if sys.modules.get(key) is module:
            self.table(cast("dict[str, object]", sys.modules)).reads[key] = node
        return proxy

    # -------------------------------------------------------------- what proxies and copies tell

    def copied(self, copy: Copy, real: Copy, where: Where, node: WriteTarget | None = None) -> None:
        """Remember a copy of a container of the user, which the run may write to.

        For attributes, `node` stands for the namespace or for the object.
        """
        self._places.copies.append(ContainerCopy(copy, copy.copy(), real, where, node))

    def shared(self, value: object, where: Where) -> None:
        """Remember a container or object of the user that the run uses without a proxy."""
        self.state.remember(value)
        self._places.shared.append((value, where))

    def data(self, value: object, node: Content, where: Where) -> None:
        """Remember data of the user that the run uses without a proxy, and may write to."""
        self._places.data.append((value, node, where))

    def items(self, items: DictProxy) -> None:
        """Remember the proxy of a dict of the user, whose items the run may write."""
        self._places.items.append(items)

    def list(self, items: ListProxy) -> None:
        """Remember the proxy of a list of the user, which the run may append to."""
        self._places.lists.append(items)

    def plain(self, value: object) -> object:
        """The key of a dict of the user for which `value` stands."""
        if not traced_within(value):
            return self.original(value)
        try:
            return self.objects.release(value)
        except NoValueError as error:
            self.refused.append(("a key of a dict", error.args[0]))
            return value

    # ------------------------------------------------------------------------------------ writes

    def array(self, number: int) -> tuple[object, str]:
        """A captured array, and how the user would name it."""
        return self._places.arrays[number], label(self._places.named[number])

    def filled(self, number: int, value: object) -> None:
        """Note that a captured array gets the entries of a traced one."""
        array, place = self.array(number)
        words, node = f"a write to the array `{place}`", self._known[id(array)][1]
        self.repeats.filled(words, place, node, value)

    def written(self) -> bool:
        """Whether `f` has written anything so far; the user's objects may get it at the end."""
        if any(words.startswith("a write to") for words in self.impurities.noted):
            return True
        return self.repeats.direct or self._places.written() or self.objects.written()

    def flush(self) -> None:
        """Show the writes of `f` so far to functions that are watched on their own.

        They may find proxies and traced values, which are released when the run is over.
        """
        self._places.write(self.original, self._refusing)
        self.objects.carry_over(self._refusing, self.original)

    def see(self, other: Capture) -> None:
        """From now on `f` reads what `other`, the capture of an inner function, has written."""
        self._places.see(other._places)
        self.objects.see(other.objects)

    def carry_over(self) -> None:
        """Carry the writes of `f` over to the user's globals, cells, containers and objects."""
        self._carried_over = True
        self.objects.keep_computed()
        self._places.carry_over(self.objects.release, self, self._refusing)
        self.objects.carry_over(self._refusing)

    @contextmanager
    def _refusing(self, place: str) -> Generator[None]:
        """A context: a value without a number is not stored in this place, but noted as refused."""
        try:
            yield
        except NoValueError as error:
            self.refused.append((place, error.args[0]))

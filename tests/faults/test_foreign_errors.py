"""Errors of the code inside are caught, and exceptions that came from outside are not."""

import ast
import builtins
import gc
import signal
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest

import fdiff
from fdiff import foreign_errors
from fdiff.foreign_errors import (
    HiddenError,
    Suppressed,
    environment_value,
    file_status,
    hiding,
    is_of_signal_handler,
    not_foreign,
    not_signalled,
    noting,
    telling,
    uninterrupted_entry,
    update_wrapper,
)
from fdiff.process import forking

FOLDER = Path(fdiff.__file__).parent
# Of these no signal handler raises one, or what is caught is the user's own.
RARE = {
    "GeneratorExit", "ImportError", "MemoryError", "StopIteration", "SyntaxError", "TimeoutError",
    "UnicodeError", "FloatingPointError", "Warning", "KeyboardInterrupt", "SystemError",
}  # fmt: skip
# Other clauses that catch errors of Python's own classes, by the file and how many there are.
ALLOWED = {
    "device_arrays.py": (1, "a property of torch's or of the user's, which is asked once"),
    "dispatch/tiers/bytecode_tier.py": (2, "`_failed` raises what came from outside"),
    "dispatch/numpy_warnings.py": (1, "the user's function, which is not called twice"),
    "distributed/cluster.py": (1, "raises all but losses of workers"),
    "distributed/messages.py": (1, "looks for what cannot be pickled: an error is under way"),
    "distributed/worker_tasks.py": (
        2,
        "sends it to the caller; a pickle of an error that is raised",
    ),
    "foreign_errors.py": (2, "asks whether it comes again; hides what Python would drop"),
    "functional/derivative_checks/derivative_laws.py": (
        1,
        "the user's function, named in the error",
    ),
    "functional/options.py": (1, "the text of a wrong device, for its error"),
    "kernels/llvm/stub/stub_binding.py": (1, "raises all but what the trial is to raise"),
    "optimize/ipopt.py": (1, "an error of IPOPT's, which has it as its cause"),
    "process/background.py": (1, "for whoever waits for it; the thread sees no signals"),
    "process/progress.py": (2, "in a thread of its own, which sees no signals"),
    "process/threads.py": (1, "looks at the traceback"),
    "tracebacks.py": (1, "raises it where the call was right"),
}


def is_bare(kind):
    """Whether an expression names errors of Python's own classes that may come from outside."""
    if kind is None:
        return True
    parts = {node.id for node in ast.walk(kind) if isinstance(node, ast.Name)}
    named = {n for n in parts if isinstance(getattr(builtins, n, None), type) or n.isupper()}
    return bool(named - RARE - {"type"}) and parts.isdisjoint(["not_foreign", "not_signalled"])


def raises_again(handler):
    """Whether a clause looks where its exception came from, or always ends in raising it."""
    names = {node.id for node in ast.walk(handler) if isinstance(node, ast.Name)}
    if names & {"is_foreign", "is_of_signal_handler", "comes_once"}:
        return True
    last, own = handler.body[-1], handler.name
    again = isinstance(last, ast.Raise) and (last.exc is None or ast.unparse(last.exc) == own)
    return again and not any(isinstance(node, ast.Return) for node in ast.walk(handler))


def catches(node):
    """Whether a node is a clause, or a context, that hides exceptions from outside."""
    if isinstance(node, ast.ExceptHandler):
        whole = node.type is not None and "BaseException" in ast.unparse(node.type)
        return not whole and is_bare(node.type) and not raises_again(node)
    called = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress")
    return called and any(map(is_bare, node.args))


def test_what_catches_errors_of_pythons_own_classes_asks_where_they_come_from():
    counts = {}
    for file in sorted(FOLDER.rglob("*.py")):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if count := sum(map(catches, nodes)):
            counts[file.relative_to(FOLDER).as_posix()] = count
    assert counts == {name: count for name, (count, _) in ALLOWED.items()}


@pytest.mark.parametrize("kind", ["ValueError", "(KeyError, IndexError)", ""])
def test_a_clause_that_asks_nothing_is_found(kind):
    tree = ast.parse(f"def g():\n  try:\n    f()\n  except {kind}:\n    return")
    assert sum(map(catches, ast.walk(tree))) == 1


# What Python's library reads with a clause of its own, and who may ask it: when fdiff is imported,
# and on the simulator, whose threads keep what a kernel asks for.
DROPPING = (
    "functools.wraps", "functools.update_wrapper", "os.environ.get", "os.getenv",
    "threading.current_thread", "ast.walk", "ast.iter_child_nodes", "ast.iter_fields",
    "ast.fix_missing_locations", "copy.deepcopy", "linecache.getline", "linecache.getlines",
)  # fmt: skip
OF_PATHS = (".exists", ".is_dir", ".is_file", ".is_symlink", ".isdir", ".isfile", ".islink")
ASKING = {
    "process/environment.py": 1,
    "kernels/cuda/cuda_words.py": 1,
    "kernels/cuda/devices/simulated_words.py": 1,
    "functional/call/prepared.py": 1,  # `copy.deepcopy` for whoever calls it
    "source_lines.py": 1,
}


def test_functions_of_python_that_drop_exceptions_are_not_called():
    counts = {}
    for file in sorted(FOLDER.rglob("*.py")):
        nodes = [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
        read = [ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)]
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                read += [f"{node.module}.{name.name}" for name in node.names]
        if count := sum(name in DROPPING or name.endswith(OF_PATHS) for name in read):
            counts[file.relative_to(FOLDER).as_posix()] = count
    assert counts == ASKING


def test_visitors_of_trees_read_fields_without_a_clause():
    for file in sorted(FOLDER.rglob("*.py")):
        if file.name != "syntax_trees.py":
            nodes = [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
            bases = [[*map(ast.unparse, n.bases)] for n in nodes if isinstance(n, ast.ClassDef)]
            visitors = [b for b in bases if {*b} & {"ast.NodeVisitor", "ast.NodeTransformer"}]
            assert all(b[0] == "GenericVisit" for b in visitors), file


def test_paths_are_joined_by_a_method():
    """The operator of paths takes any TypeError for one about what it is given, and drops it."""
    for file in sorted(FOLDER.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "pathlib" in text:
            nodes = [*ast.walk(ast.parse(text))]
            assert not [
                ast.unparse(n)
                for n in nodes
                if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)
            ], file


def test_no_template_of_re_is_expanded():
    """`re` takes any IndexError that arrives there for a group that is not there."""
    expanded = []
    for file in sorted(FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("sub", "subn"):
                texts = [
                    n.value
                    for a in node.args[-2:]
                    for n in ast.walk(a)
                    if isinstance(n, ast.Constant)
                ]
                expanded += [file.name for t in texts if "\\g<" in str(t) or "\\1" in str(t)]
    assert not expanded


class NoneError(Exception):
    """Says that a clause has caught something."""


KINDS = [ValueError, TypeError, KeyError, AttributeError, IndexError, RuntimeError, OSError]


def handler(kind):
    raise kind("of a handler")


def caught(kind, expected, again=None):
    with suppress(NoneError):
        try:
            handler(kind)
        except not_foreign(expected, again=again):
            raise NoneError from None


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_from_outside_leaves_the_clause(kind):
    with pytest.raises(kind, match="of a handler"):
        caught(kind, kind)
    with pytest.raises(kind, match="of a handler"), Suppressed(kind):
        handler(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_again_is_the_users(kind):
    """And what does not is not; of other classes nothing is asked."""
    calls = []

    def again():
        calls.append(1)
        raise kind

    caught(kind, kind, again)
    assert calls == [1]
    with pytest.raises(kind):
        caught(kind, kind, lambda: None)
    with pytest.raises(ZeroDivisionError):
        caught(ZeroDivisionError, kind, again)
    assert calls == [1]


def catches_what_is_not_signalled(call):
    try:
        call()
    except not_signalled(NotImplementedError):
        return


@pytest.mark.parametrize("bound", [False, True])
def test_what_an_installed_signal_handler_raises_is_told_from_errors_of_the_user(bound):
    class Alarm:
        def ring(self, *_):
            raise NotImplementedError

    def fails():
        raise NotImplementedError

    ring = Alarm().ring if bound else lambda *_: fails()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(NotImplementedError) as raised:
            catches_what_is_not_signalled(lambda: signal.raise_signal(signal.SIGALRM))
        assert is_of_signal_handler(raised.value)
        catches_what_is_not_signalled(fails)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", [ValueError, OSError, TimeoutError])
def test_what_arrives_while_a_file_is_looked_for_comes_out(kind, tmp_path):
    class Watched(type(tmp_path)):
        def stat(self, **_):
            handler(kind)

    assert file_status(tmp_path / "nothing") is None
    assert file_status(tmp_path / "a\0b") is None
    assert file_status(tmp_path).st_mode == tmp_path.stat().st_mode
    with pytest.raises(kind, match="of a handler"):
        file_status(Watched(tmp_path))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("failed to map segment", MemoryError),
        ("cannot create a descriptor: Cannot allocate memory", MemoryError),
        ("failed to map segment: Operation not permitted", ImportError),
        ("no module", ImportError),
    ],
)
def test_a_module_without_room_in_memory_is_a_memory_error(words, kind, monkeypatch):
    def import_module(*_):
        raise ImportError(f"a.so: {words}")

    monkeypatch.setattr(forking.importlib, "import_module", import_module)
    with pytest.raises(kind, match=words):
        forking.imported("a")
    with pytest.raises(kind, match=words), forking.no_fork:  # as imports by statements are
        import_module()


class Fit:
    def __init__(self):
        self.log = []

    def loss(self, x):
        self.log.append(0)
        signal.raise_signal(signal.SIGALRM)
        return np.sum(x * x)


def test_an_alarm_in_a_function_that_writes_is_no_reason_to_run_it_again():
    faults, fit = [1], Fit()

    def ring(*_):
        if faults:
            faults.pop()
            raise TimeoutError("of a handler")

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(TimeoutError, match="of a handler"):
            fdiff.grad(fit.loss)(np.ones(2))
    finally:
        signal.signal(signal.SIGALRM, before)


def test_errors_of_the_code_inside_are_caught():
    text = "try:\n    int(x)\nexcept not_foreign(ValueError):\n    x = 0"
    names = {"__name__": "fdiff.of_a_test", "not_foreign": not_foreign, "x": "no number"}
    exec(text, names)
    assert names["x"] == 0


@pytest.mark.parametrize("replacing", [False, True])
def test_what_arrives_while_the_environment_is_read_comes_out(replacing, monkeypatch):
    """Also where `os` raises a KeyError of its own in place of it."""
    assert environment_value("FDIFF_NOTHING") is None

    class Environment:
        def __getitem__(self, name):
            try:
                handler(KeyError)
            except KeyError:
                if not replacing:
                    raise
                exec("raise KeyError(1) from None", {"__name__": "os"})

    monkeypatch.setattr(foreign_errors, "os", SimpleNamespace(environ=Environment()))
    with pytest.raises(KeyError, match="of a handler"):
        environment_value("FDIFF_NOTHING")


def test_the_environment_is_read_while_an_exception_is_handled():
    """Which is freed as soon as it has been: contexts that it has cut short end then."""
    gc.disable()
    try:
        try:
            handler(NoneError)
        except NoneError as error:
            kept = weakref.ref(error)
            assert environment_value("FDIFF_NOTHING") is None
        assert kept() is None
    finally:
        gc.enable()


def test_what_arrives_while_a_function_is_wrapped_comes_out():
    class Once:
        """An exception arrives as its name is read, once."""

        raised = False

        @property
        def __name__(self):
            if not self.raised:
                self.raised = True
                handler(AttributeError)
            return "once"

    with pytest.raises(AttributeError, match="of a handler"):
        update_wrapper(lambda: None, Once())


def test_a_wrapper_of_what_has_no_name_keeps_its_own():
    class Nameless:
        def __getattr__(self, name):
            raise AttributeError(name)

    def wrapper():
        pass

    assert update_wrapper(wrapper, Nameless()).__name__ == "wrapper"


class AlarmError(AttributeError):
    """What an alarm raises."""


def ring(*_):
    raise AlarmError


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms")
def test_a_getter_without_getattr_leaves_no_error_behind():
    class Node:
        @property
        @noting
        def edges(self):
            return self.missing

    class Array:
        @telling
        def __getattr__(self, name):
            return name

    with pytest.raises(AttributeError, match="missing"):
        _ = Node().edges
    assert Array().anything == "anything"


@pytest.mark.parametrize("wrap", [hiding, noting])
def test_no_handler_runs_at_the_entry_of_a_getter(wrap):
    """A loop of reads alone, in which most alarms came at the entry of the getter."""

    class Plain:
        value = 1.0
        read = property(wrap(lambda self: self.value))

        @telling
        def __getattr__(self, name):
            raise AttributeError(name)

    x, kinds = Plain(), set()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4)
                while True:
                    x.read  # noqa: B018 - a property
            except (HiddenError, AttributeError) as error:
                kinds.add(type(error.__cause__ or error))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert kinds == {AlarmError}


def test_code_without_checks_at_its_entry_runs_as_before():
    def outer(k):
        @uninterrupted_entry
        def inner(x, *rest, scale=2.0):
            return (x + k + sum(rest)) * scale

        return inner

    assert outer(1)(2, 3) == 12.0
    assert outer(1)(2, 3, scale=1.0) == 6.0
    assert outer(1).__code__.co_varnames[:1] == ("x",)
    assert uninterrupted_entry(len) is len


HIDING = {wrap(id).__code__ for wrap in (hiding, noting, telling)}


def classes_with_getattr():
    """Those of fdiff's that are loaded, but for stand-ins of devices and of the interpreter."""
    fdiff.grad(lambda x: np.sum(x))(np.ones(2))
    elsewhere = ("fdiff.kernels.cuda", "fdiff.kernels.llvm.stub_trials")
    modules = [m for name, m in [*sys.modules.items()] if name.startswith("fdiff.")]
    kinds = {value for module in modules for value in vars(module).values() if is_class(value)}
    for kind in kinds:
        look = getattr(kind, "__getattr__", None)
        if isinstance(look, FunctionType) and not kind.__module__.startswith(elsewhere):
            yield kind, look


def is_class(value):
    return isinstance(value, type) and value.__module__.startswith("fdiff.")


def test_what_arrives_in_a_property_beside_getattr_is_not_taken_for_a_missing_attribute():
    """Python drops an AttributeError there, and asks ``__getattr__``."""
    bare = set()
    for kind, look in classes_with_getattr():
        readers = {"__getattr__": look}
        for base in kind.__mro__:
            if base.__module__.startswith("fdiff."):
                members = vars(base).items()
                readers |= {n: m.fget for n, m in members if isinstance(m, property)}
        bare |= {
            f"{kind.__module__}.{kind.__name__}.{name}"
            for name, read in readers.items()
            if isinstance(read, FunctionType | type) and getattr(read, "__code__", 0) not in HIDING
        }
    assert bare == set()
    assert len({*classes_with_getattr()}) > 8


def test_what_arrives_in_a_property_leaves_the_public_call():
    class StopError(AttributeError):
        """What an alarm raises."""

    def stop(*_):
        raise StopError

    class Link:
        current = example = stop

    def f(x):
        x.link = Link()
        return np.sum(x[:1])

    assert issubclass(HiddenError, Exception)
    with pytest.raises(StopError) as caught:
        fdiff.grad(f)(np.ones(3))
    assert caught.value.__cause__ is None


def test_what_arrives_in_a_property_of_a_recorded_array_comes_out():
    class StopError(AttributeError):
        """What an alarm raises."""

    class Version:
        @property
        def count(self):
            raise StopError

    x = fdiff.autograd.tensor(np.ones(3), requires_grad=True)
    x.version = Version()
    with pytest.raises(StopError):
        x._version  # noqa: B018 - a property
    with pytest.raises(AttributeError, match="no_such_attribute"):
        x.no_such_attribute  # noqa: B018 - as above


def test_a_missing_attribute_stays_one():
    def f(x):
        assert not hasattr(x, "no_such_attribute")
        return np.sum(x) * getattr(x, "nothing", 2.0)

    np.testing.assert_array_equal(fdiff.grad(f)(np.ones(3)), [2.0, 2.0, 2.0])

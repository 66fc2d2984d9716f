"""Functions that cloudpickle sends by value: their code keeps its file and the text of its lines.

cloudpickle names the file of all code that it sends ``<dynamic-code>``, so that errors of a worker
would name no file and show no line. A pickled prepared function carries the missing names and texts
of its functions.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Sequence
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import TYPE_CHECKING

from ...capture.dependency_nodes import attribute
from ...source_lines import source_line, source_lines
from ...user_lines import cell_label, name_cell

if TYPE_CHECKING:
    from pickle import Pickler

_SEEN = "fdiff_codes"  # attribute of a pickler: codes by id, and whether they are sent whole


def sending_pickler() -> object:
    """The running pickler of cloudpickle or of joblib's copy of cloudpickle; None without one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if "cloudpickle" in str(frame.f_globals.get("__name__")):
            pickler = frame.f_locals.get("self")
            if hasattr(pickler, "memo"):
                return pickler
        frame = frame.f_back
    return None


class SentCode:
    """An object that is pickled as the files and texts of the functions that cloudpickle sends with
    `f`.

    The pickler's output is searched for these functions once for each code object.
    """

    def __init__(self, pickler: Pickler, f: object) -> None:
        self.pickler, self.f = pickler, f

    def __reduce__(self) -> tuple[object, ...]:
        seen: dict[int, tuple[CodeType, bool]] = vars(self.pickler).setdefault(_SEEN, {})
        functions, before = functions_of(self.f), set(seen)
        if any(id(f.__code__) not in seen for f in functions):
            memo = self.pickler.memo.copy()  # by id: the position of an object, and the object
            seen.update({id(f.__code__): (f.__code__, False) for f in functions})
            entries = sorted(memo.values(), key=lambda entry: entry[0])
            functions = [f for _, f in entries if type(f) is FunctionType]
            seen.update({id(f.__code__): (f.__code__, id(f.__code__) in memo) for f in functions})
        functions = [f for f in functions if seen[id(f.__code__)][1]]
        files = [f.__code__.co_filename for f in functions]
        texts: dict[str, dict[int, str]] = {name: {} for name in files}
        for f in functions:
            if id(f.__code__) not in before:
                texts[f.__code__.co_filename].update(_lines(f.__code__))
        return received, (functions, files, texts, {name: cell_label(name) for name in texts})


def functions_of(f: object) -> list[FunctionType]:
    """The functions that `f` is made of: bound, partial, decorated, in closures, of its class."""
    functions: dict[int, FunctionType] = {}
    todo = [f]
    while todo:
        f = todo.pop()
        if isinstance(f, MethodType):
            todo.append(f.__func__)
        elif isinstance(f, partial):  # `__wrapped__` of a prepared function
            todo += [getattr(f, "__wrapped__", f.func), *f.args]
        elif isinstance(f, FunctionType) and id(f) not in functions:
            functions[id(f)] = f
            todo += [attribute(cell, "cell_contents") for cell in f.__closure__ or ()]
        elif isinstance(call := getattr(type(f), "__call__", None), FunctionType):  # noqa: B004 - the class's own
            todo.append(call)
    return list(functions.values())


def _lines(code: CodeType) -> dict[int, str]:
    """The lines of some code, by their numbers."""
    numbers = [n for each in _nested_codes(code) for *_, n in each.co_lines() if n]
    places = range(min(numbers, default=1), max(numbers, default=0) + 1)
    return {n: source_line(code.co_filename, n) for n in places}


def received(
    functions: Sequence[FunctionType],
    files: Sequence[str],
    texts: dict[str, dict[int, str]],
    labels: dict[str, str],
) -> None:
    """Give unpickled functions the names of their files, and give the lines to `linecache`."""
    for f, name in zip(functions, files, strict=True):
        f.__code__ = _in_file(f.__code__, name)
    for name, lines in texts.items():
        if labels[name]:
            name_cell(name, labels[name])
        here = source_lines(name) if any(lines.values()) else []
        there = [*here, *["\n"] * (max(lines, default=0) - len(here))]
        for n, text in lines.items():
            there[n - 1] = text or there[n - 1]
        if any(lines.values()) and there != here:  # no time of change: lines are kept
            linecache.cache[name] = len("".join(there)), None, there, name


def _nested_codes(code: CodeType) -> list[CodeType]:
    """Some code and the code of functions in it."""
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return [code, *[each for const in inner for each in _nested_codes(const)]]


def _in_file(code: CodeType, name: str) -> CodeType:
    """A copy of the code that names another file."""
    consts = [_in_file(c, name) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.replace(co_filename=name, co_consts=tuple(consts))

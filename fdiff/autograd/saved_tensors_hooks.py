"""Contexts that decide where values saved for backward are kept.

Source: torch's note "Autograd mechanics", section "Hooks for saved tensors".
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import fdiff.intact_numpy as np

from ..errors import ForkError, InputError, failure, flag, shown
from ..foreign_errors import contextmanager, not_foreign
from ..tracebacks import public_class
from .argument_checks import as_directory, require_function, require_recorded
from .arrays.recorded_array import RecordedArray, Version
from .backward_passes.nodes import GraphNode
from .backward_passes.saved_values import FIXED
from .thread_state import StateContext, during, state


@public_class
class saved_tensors_hooks(StateContext):  # noqa: N801 - as in torch
    """Context in which a pair of hooks decides how saved values are kept.

    Parameters
    ----------
    pack_hook : callable
        ``pack_hook(array)`` is called with each value that an operation saves for the backward
        pass. It may return any object. It must not store into the array.
    unpack_hook : callable
        ``unpack_hook(packed)`` is called in the backward pass. It must return an array with the
        same values, shape and dtype.

    Raises
    ------
    RuntimeError
        If hooks are disabled, or if a hook stores into its array or returns one of another type.

    References
    ----------
    torch.autograd.graph.saved_tensors_hooks

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> x = autograd.tensor([1.0, 2.0], requires_grad=True)
    >>> with autograd.graph.saved_tensors_hooks(lambda a: a.tolist(), lambda p: np.array(p)):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(
        self, pack_hook: Callable[[RecordedArray], object], unpack_hook: Callable[[Any], object]
    ) -> None:
        super().__init__()
        require_function(pack_hook, "pack_hook", "graph.saved_tensors_hooks")
        require_function(unpack_hook, "unpack_hook", "graph.saved_tensors_hooks")
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def _before(self) -> dict[str, object]:
        if state.refusal is not None:
            raise RuntimeError(state.refusal)
        return {"hooks": state.hooks}

    def _enter(self) -> None:
        state.hooks = (*state.hooks, (self.pack_hook, self.unpack_hook))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None]:
    """Context in which `saved_tensors_hooks` raises a RuntimeError with this message.

    Parameters
    ----------
    error_message : str
        The message.

    Returns
    -------
    context manager
        Its value is None.

    Raises
    ------
    RuntimeError
        With that message, if hooks are entered inside, or if some are already active.

    References
    ----------
    torch.autograd.graph.disable_saved_tensors_hooks

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> with autograd.graph.disable_saved_tensors_hooks("no hooks here"):
    ...     print((autograd.tensor(1.0, requires_grad=True) * 2.0).item())
    2.0
    """
    if not _is_of(error_message, str):
        fact = f"error_message must be a text, not {type(error_message).__name__}."
        call = "fdiff.autograd.graph.disable_saved_tensors_hooks"
        raise failure(InputError, call, fact, "Say in it why hooks are not wanted.")
    if state.saved_hooks:
        raise RuntimeError(error_message)
    with during(refusal=error_message):
        yield


@public_class
class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - as in torch
    """Context in which saved values are copies in the memory of the host.

    Arrays of NumPy are there already. For them, the copy means that a later store into the array
    does not change the saved value.

    Parameters
    ----------
    pin_memory : bool
        Accepted for compatibility with torch, without effect.

    References
    ----------
    torch.autograd.graph.save_on_cpu

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> x = autograd.tensor([1.0, 2.0], requires_grad=True)
    >>> with autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pin_memory: bool = False) -> None:  # noqa: FBT001,FBT002 - torch's signature
        flag(pin_memory, "pin_memory", "fdiff.autograd.graph.save_on_cpu")
        super().__init__(lambda array: np.array(array.value), lambda packed: packed)


@public_class
class save_on_disk(saved_tensors_hooks):  # noqa: N801 - in the manner of save_on_cpu
    """Context in which saved values are files, read through ``numpy.memmap`` in the backward pass.

    A file is removed when the node that saved it is freed, by the process that made it: a forked
    child reads the files of its parent as long as they are there.

    Parameters
    ----------
    directory : path, optional
        The directory of the files, by default a temporary directory.
    smallest : int
        Smaller values, in bytes, stay in memory.

    Raises
    ------
    InputError
        If there is no such directory.
    OSError
        If the disk is full. The incomplete file is removed.

    References
    ----------
    The example of torch's tutorial "Hooks for autograd saved tensors".

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> x = autograd.tensor(np.linspace(0.0, 1.0, 10_000), requires_grad=True)
    >>> with autograd.graph.save_on_disk():
    ...     y = np.sin(x).sum()
    >>> y.backward()
    >>> bool(np.all(x.grad == np.cos(x.detach().numpy())))
    True
    """

    def __init__(self, directory: str | Path | None = None, smallest: int = 1 << 14) -> None:
        self.directory = as_directory(directory, "graph.save_on_disk")
        if not _is_of(smallest, int) or smallest < 0:
            fact = f"smallest must be a number of bytes, not {shown(smallest)}."
            raise failure(InputError, "fdiff.autograd.graph.save_on_disk", fact, "Give an int.")
        self.smallest = smallest
        super().__init__(self._pack, self._unpack)

    def _pack(self, array: RecordedArray) -> object:
        value = np.asarray(array.value)
        if value.nbytes < max(self.smallest, 1):  # a file without a byte cannot be mapped
            return np.array(value)
        return _File(value, self.directory)

    def _unpack(self, packed: object) -> object:
        return packed.read() if isinstance(packed, _File) else packed


class _File:
    """An array in a file, which is removed with this object in the process that made it."""

    def __init__(self, value: np.ndarray, directory: Path | None) -> None:
        self.dtype, self.shape, self.process = value.dtype, value.shape, os.getpid()
        handle, name = tempfile.mkstemp(".bin", "fdiff-saved-", directory)
        self.path = Path(name)
        remove = weakref.finalize(self, self._remove, self.path, self.process)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        except BaseException as error:  # the disk is full, or the user interrupts
            remove()
            if not isinstance(error, OSError):
                raise
            words = f"{error.strerror}: save_on_disk writes {value.nbytes:,} bytes of a saved value"
            raise OSError(error.errno, words, name) from error

    @staticmethod
    def _remove(path: Path, process: int) -> None:
        if os.getpid() == process:  # a forked child has the objects of its parent, not the files
            path.unlink(missing_ok=True)

    def read(self) -> np.ndarray:
        """The array, as pages of the file that are read when they are needed."""
        try:
            mapped = np.memmap(self.path, self.dtype, mode="r", shape=self.shape)
        except not_foreign(FileNotFoundError) as error:
            if os.getpid() == self.process:
                raise
            fact = "the process that saved this value has removed it since this one was forked."
            way = "Fork before the forward pass, or have the parent wait with its backward pass."
            raise failure(ForkError, "fdiff.autograd.graph.save_on_disk", fact, way) from error
        return mapped.view(np.ndarray)


class _Copies:
    """Values saved in this context, by the version counters that tell of stores into them."""

    def __init__(self) -> None:
        self.nodes: dict[Version, list[weakref.ref[GraphNode]]] = {}

    def note(self, node: GraphNode) -> None:
        """Remember the arrays that a node has saved."""
        for version, _ in node.counts:
            if version is not FIXED[0]:
                self.nodes.setdefault(version, []).append(weakref.ref(node))

    def keep(self, version: Version) -> None:
        """Copy saved arrays that share memory with an array about to be stored into."""
        for reference in self.nodes.pop(version, ()):
            node = reference()
            if node is None or node.saved is None:
                continue
            pairs = list(zip(node.saved, node.counts, strict=True))
            kept = [
                (np.array(v), FIXED) if c == (version, version.count) else (v, c) for v, c in pairs
            ]
            node.saved = tuple([v for v, _ in kept])
            node.counts = tuple([c for _, c in kept])


@contextmanager
def allow_mutation_on_saved_tensors() -> Generator[_Copies]:
    """Context in which stores into saved arrays are allowed: the arrays are copied before.

    Returns
    -------
    context manager
        Its value holds the copies.

    Raises
    ------
    RuntimeError
        If the context is nested.

    References
    ----------
    torch.autograd.graph.allow_mutation_on_saved_tensors

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> x = autograd.tensor([1.0, 2.0], requires_grad=True)
    >>> with autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 1
    ...     z = (y**2).sum()
    ...     y *= 10
    ...     z.backward()
    >>> x.grad
    tensor([2., 4.])
    """
    if state.copies is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    copies = _Copies()
    with during(keeper=copies):
        yield copies


def increment_version(tensor: RecordedArray | Iterable[RecordedArray]) -> None:
    """Tell fdiff that code which it does not see has stored into an array.

    Parameters
    ----------
    tensor : RecordedArray or iterable of them
        The arrays. A node that saved one of them before raises an error in the backward pass.

    References
    ----------
    torch.autograd.graph.increment_version

    Examples
    --------
    >>> import fdiff.autograd as autograd
    >>> x = autograd.tensor([1.0])
    >>> x.numpy()[0] = 2.0
    >>> autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    if isinstance(tensor, RecordedArray) or not isinstance(tensor, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - users need not check types
        tensor = (tensor,)
    for array in tensor:
        require_recorded(array, "graph.increment_version")
        array.version.bump(None)


def _is_of(value: object, kind: type) -> bool:
    """Whether a value is what its annotation says: users need not check types."""
    return isinstance(value, kind)

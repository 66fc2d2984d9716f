"""Trials of calls without structures: arguments, memory layouts, kernels and their failures."""

from __future__ import annotations

from collections.abc import Iterator

import fdiff.intact_numpy as np

from ..stub.call_descriptor import (
    CallSignature,
    KernelInput,
    KernelOutput,
    Preconditions,
    ResultStep,
)
from ..stub.descriptor_layout import COPY_WORDS, FRAME_WORDS
from .trial import F8, MISS, MOVED, ONE, TUPLE, Trial


def flat_trials() -> Iterator[Trial]:
    """Trials of the steps of every stub."""
    yield from _arguments()
    yield from _layouts()
    yield from _kernels()


def _arguments() -> Iterator[Trial]:
    """Arrays and numbers without conversion, and arguments that do not fit."""
    array, number, exact = np.arange(3.0), 2.5, np.float64(0.5)
    vector, two = KernelInput(0, (3,), F8), KernelInput(1, (), F8)
    yield Trial(ONE, (array,), (vector,), (array,))
    both = Trial((ONE,), (array, number), (vector, two), (array, number), (MOVED, TUPLE))
    both = both._replace(signature=CallSignature(2))
    yield both
    for value in (exact, np.array(0.5), np.array(0.5, np.dtype("f8", metadata={"a": 1}))):
        yield both._replace(given=(array, value), operands=(array, value))
    for value in (2, np.float32(2.0), np.array(2.0, "f4"), np.ones(1), "text", None):
        yield both._replace(given=(array, value), outcome=MISS)
    alike = array.astype(np.dtype("f8", metadata={"a": 1}))
    others = (alike[:, None], np.arange(4.0), array.astype("f4"), array[None], array[:, None])
    for value in (number, array.astype("i8"), *others):
        yield both._replace(given=(value, number), outcome=MISS)
    for error, outcome in ((LookupError, MISS), (MemoryError, MemoryError)):
        wrong = (array, np.array(2.0, "f4"))
        yield both._replace(given=wrong, failing=("EquivTypes", error), outcome=outcome)
    for arguments in ((), (array,), (array, number, number)):
        yield both._replace(given=arguments, outcome=MISS)
    yield both._replace(named={"name": number}, outcome=MISS)
    fixed = KernelInput(-1, (3,), F8, array=array)
    yield both._replace(inputs=(fixed, two), given=(None, number))
    no_fallback = Preconditions(occupied={})
    yield both._replace(given=(array, "text"), checks=no_fallback, outcome=None)
    parts = (array, array + 1.0, array + 2.0)
    three = tuple(KernelInput(k, (3,), F8) for k in range(3))
    yield Trial(ONE, parts, three, parts, signature=CallSignature(3))


def _layouts() -> Iterator[Trial]:
    """Arrays that are copied, to the stack or by NumPy, and strides."""
    grid = np.arange(96.0).reshape(8, 12)
    odd = np.zeros(4, "u1,f8,u4")["f1"]
    packed = (
        grid[0, ::2], grid[0, 1::3], grid[1, 5::-1], grid[:, 1], grid[::2, ::3], grid[:3, :5].T,
        grid[:1, 3::-1], grid[3:5, :1].T, grid[:0, ::2], grid[:0, 0],
    )  # fmt: skip
    copied = (
        odd, odd[:3], np.frombuffer(bytes(range(36)), "f8", 4, 1), np.zeros(4, "f8,u4")["f0"],
        np.frombuffer(bytes(range(36)), "f8", 4, 4), np.zeros(4, "f8,u1")["f0"],
        np.zeros(4, [("a", "f8", (2,)), ("b", "u4")])["a"], np.zeros(3, "c16,f8")["f0"],
        grid.astype("f4")[:, 2], np.arange(24.0).reshape(2, 3, 4).T,
    )  # fmt: skip
    for view in packed + copied:
        entry = KernelInput(0, view.shape, view.dtype, copyable=True)
        plain = view.flags.c_contiguous and view.flags.aligned
        by_numpy = not plain and not any(view is other for other in packed)
        yield Trial(ONE, (view,), (entry,), (view,), copies=by_numpy)
        if not plain:
            yield Trial(MISS, (view,), (entry._replace(copyable=False),))
        whole = not any(step % view.itemsize for step in view.strides) and view.flags.aligned
        strided = entry._replace(strided=True, copyable=False)
        yield Trial(ONE if whole else MISS, (view,), (strided,), (view,))
    pair = (grid[::2, ::3], grid[:, 1])
    inputs = tuple(KernelInput(k, v.shape, F8, strided=True) for k, v in enumerate(pair))
    yield Trial(ONE, pair, inputs, pair, signature=CallSignature(2))
    near = tuple(entry._replace(strided=False, copyable=True) for entry in inputs)
    yield Trial(ONE, pair, near, pair, signature=CallSignature(2))
    far = KernelInput(0, (4,), F8, copyable=True)
    trial, misfit = Trial(ONE, (odd, odd), (far, far), (odd, odd), copies=2), (odd, grid[0])
    trial = trial._replace(signature=CallSignature(2), inputs=(far, far._replace(register=1)))
    yield trial
    yield trial._replace(outcome=LookupError, failing=("NewCopy", LookupError))
    yield trial._replace(given=misfit, outcome=MISS, copies=1)
    largest, count = np.arange(1024.0)[::2], COPY_WORDS // 513
    for width in (COPY_WORDS - 513 * count - 1, COPY_WORDS - 513 * count):
        views = (*[largest] * count, np.arange(2.0 * width)[::2])
        inputs = tuple(KernelInput(k, v.shape, F8, copyable=True) for k, v in enumerate(views))
        copies = int(513 * count + width >= COPY_WORDS)
        signature = CallSignature(len(views))
        yield Trial(ONE, views, inputs, views, signature=signature, copies=copies)


def _kernels() -> Iterator[Trial]:
    """Workspaces, constants, the lock, results and failures of a kernel."""
    array = np.arange(3.0)
    base = Trial(ONE, (array,), (KernelInput(0, (3,), F8),), (array,))
    outputs = (KernelOutput((2, 1), F8), KernelOutput((), F8), KernelOutput((3,), np.dtype("f4")))
    steps = (*(ResultStep("OUTPUT", k) for k in range(3)), ResultStep("GROUP", list, 3))
    several = [ONE, np.array(2.0), np.full(3, 3.0, "f4")]
    yield base._replace(outputs=outputs, result=steps, outcome=several)
    yield base._replace(outputs=outputs, result=(steps[1],), outcome=several[1])
    slots = tuple(KernelOutput((), np.dtype("c16"), scalar=True) for _ in range(2))
    turned, entry = np.zeros(4, "f8,u4")["f0"], KernelInput(0, (4,), F8, copyable=True)
    last = base._replace(outputs=(outputs[0], *slots))
    yield last._replace(given=(turned,), inputs=(entry,), operands=(turned,), copies=1)
    yield base._replace(constants=(array + 1.0, array + 2.0), size=128)
    yield base._replace(size=72, keep=True)
    yield base._replace(release=True)
    yield base._replace(result=(), outcome=0)
    yield base._replace(result=(), outcome=7, status=7)
    yield base._replace(outcome=MISS, status=3)
    yield base._replace(flag=True)
    yield base._replace(flag=True, outcome=ArithmeticError)
    for frame in (FRAME_WORDS + 1, 4 * FRAME_WORDS):
        yield base._replace(frame=frame)
    full = ("PyMem_RawMalloc", MemoryError)
    yield base._replace(frame=FRAME_WORDS, failing=full)  # which is not called
    yield base._replace(frame=FRAME_WORDS + 1, failing=full, outcome=MemoryError)
    yield base._replace(size=64, given=(array[:2],), outcome=MISS)
    yield base._replace(size=64, failing=full, outcome=MISS)
    yield base._replace(failing=("NewFromDescr", LookupError), outcome=LookupError)
    grouped = base._replace(result=(MOVED, TUPLE))
    yield grouped._replace(failing=("PyTuple_New", LookupError), outcome=LookupError)

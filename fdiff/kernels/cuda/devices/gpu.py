"""A GPU as a device, by ``cuda.core``: memory from a pool, copies, and launches.

Everything happens on one stream: CuPy's current one where CuPy is installed, so that results are
ready where CuPy's next operation runs; else the default stream, which Numba and torch use unless
they are told otherwise. Arrays that name another stream are waited for on the device, not by the
host. Memory comes from CuPy's pool, or from the driver's own (stream-ordered) one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, SupportsInt

import numpy as np

from ....device_arrays import DeviceArray
from ....errors import DeviceError, message
from ....generated_text import Namespace
from ..cuda_program import CudaKernel
from . import adapter
from .device import Argument, Block, Pointer, Prepared
from .kernel_binaries import binary
from .strided_copies import copied, copy_into, zeroed

_LEAST = 8  # bytes of a piece of memory: an empty array has an address too

Answer = tuple[SupportsInt, *tuple[object, ...]]  # of the driver: its status, and results


class Gpu:
    """The GPU that is current where it is first asked for."""

    can_record = True

    def __init__(self) -> None:
        self._core, self._driver = adapter.cuda_core(), adapter.cuda_driver()
        self._cupy = adapter.cupy()
        device = self._core.Device() if self._cupy is None else self._core.Device(self._cupy_id())
        device.set_current()
        self._id: int = device.device_id
        self.name: str = device.name
        major, minor = device.compute_capability
        self._capability = int(major), int(minor)
        self._pool = device.memory_resource
        self._ready = threading.local()
        self._ready.here = True
        self._kernels: dict[CudaKernel, object] = {}

    def _cupy_id(self) -> int:
        assert self._cupy is not None
        return int(self._cupy.cuda.Device().id)

    def _make_current(self) -> None:
        """The GPU is made current in a thread that is new."""
        if not hasattr(self._ready, "here"):
            self._core.Device(self._id).set_current()
            self._ready.here = True

    @property
    def _stream(self) -> Any:
        """The stream of this call."""
        if (recording := getattr(self._ready, "recording", None)) is not None:
            return recording
        self._make_current()
        if self._cupy is None:
            return self._core.LEGACY_DEFAULT_STREAM
        handle = int(self._cupy.cuda.get_current_stream().ptr)
        special = {0: self._core.LEGACY_DEFAULT_STREAM, 1: self._core.LEGACY_DEFAULT_STREAM}
        special[2] = self._core.PER_THREAD_DEFAULT_STREAM
        return special.get(handle) or self._core.Stream.from_handle(handle)

    # ------------------------------------------------------------------------------- arrays

    def view(self, value: object) -> DeviceArray:
        self._make_current()
        if self._cupy is not None and type(value) is self._cupy.ndarray:
            return self._view_of_cupy(value)
        if (empty := _empty(value)) is not None:  # its address says nothing of where it lies
            return self.results(*empty)
        view = self._core.utils.StridedMemoryView
        source = view.from_any_interface(value, int(self._stream.handle))
        self._check_gpu(source.device_id)
        dtype, strides = np.dtype(source.dtype), source.strides
        steps = None if strides is None else tuple([s * dtype.itemsize for s in strides])
        return DeviceArray(self, tuple(source.shape), dtype, int(source.ptr), source, steps)

    def _view_of_cupy(self, array: Any) -> DeviceArray:
        """A view of an array of CuPy's, on whose current stream all work is done anyway."""
        self._check_gpu(array.data.device_id)
        flat = array.flags.c_contiguous
        return DeviceArray(
            self, array.shape, array.dtype, array.data.ptr, array, None if flat else array.strides
        )

    def _check_gpu(self, number: int) -> None:
        if number != self._id:
            fact = f"an array lies on GPU {number}, and fdiff runs on GPU {self._id}."
            way = "Copy it there, or make its GPU the current one before the first call."
            raise DeviceError(message("device='cuda'", fact, way))

    def allocate(self, nbytes: int) -> Block:
        self._make_current()
        if self._cupy is not None:
            owner = self._cupy.cuda.alloc(max(nbytes, _LEAST))
            return Block(int(owner.ptr), owner)
        owner = self._pool.allocate(max(nbytes, _LEAST), stream=self._stream)
        return Block(int(owner.handle), owner)

    def results(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        self._make_current()
        if self._cupy is not None:
            owner = self._cupy.empty(shape, dtype)
            return DeviceArray(self, shape, dtype, int(owner.data.ptr), owner)
        block = self.allocate(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        return DeviceArray(self, shape, dtype, block.address, block.owner)

    def upload(self, array: np.ndarray) -> DeviceArray:
        host = np.ascontiguousarray(array).reshape(array.shape)
        block = self.allocate(host.nbytes)
        if host.nbytes:  # from pageable memory: the driver has read all of it when this returns
            self._check(
                self._driver.cuMemcpyHtoDAsync(
                    block.address, host.ctypes.data, host.nbytes, self._stream.handle
                )
            )
        return DeviceArray(self, array.shape, host.dtype, block.address, block.owner)

    def download(self, array: DeviceArray) -> np.ndarray:
        values = np.empty(array.shape, array.dtype)
        source = array if array.strides is None else self.copy(array)
        stream = self._stream
        if values.nbytes:
            self._check(
                self._driver.cuMemcpyDtoHAsync(
                    values.ctypes.data, source.address, values.nbytes, stream.handle
                )
            )
        stream.sync()
        return values

    def copy(self, array: DeviceArray) -> DeviceArray:
        if array.strides is not None:
            return copied(self, array)
        out, stream = self.results(array.shape, array.dtype), self._stream.handle
        if array.nbytes:
            move = self._driver.cuMemcpyDtoDAsync
            self._check(move(out.address, array.address, array.nbytes, stream))
        return out

    def write(self, source: DeviceArray, target: DeviceArray) -> None:
        copy_into(self, source, target)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        return zeroed(self, shape, dtype)

    def wait(self) -> None:
        self._stream.sync()

    def clear(self, address: int, nbytes: int) -> None:
        if nbytes:
            self._check(self._driver.cuMemsetD8Async(address, 0, nbytes, self._stream.handle))

    def export(self, array: DeviceArray) -> object:
        if self._cupy is not None:
            if isinstance(array.owner, self._cupy.ndarray) and array.strides is None:
                return array.owner
            return self._cupy.asarray(_Exported(array))
        return adapter.numba_cuda().as_cuda_array(_Exported(array))

    def _check(self, answer: Answer) -> None:
        """Raise the driver's error, if its answer is one."""
        if int(answer[0]):
            fact = f"the driver refused an operation: {answer[0]!s}."
            way = "Look at fdiff.doctor(); with less memory on the GPU, give chunk_size."
            raise DeviceError(message("device='cuda'", fact, way))

    # ------------------------------------------------------------------------------ kernels

    def prepare(
        self, kernel: CudaKernel, blocks: int, threads: int, arguments: Sequence[Argument]
    ) -> Prepared:
        launch, code = self._core.launch, self._loaded(kernel)
        config = self._core.LaunchConfig(grid=blocks, block=threads)
        numbers = [0 if isinstance(a, Pointer) else a for a in arguments]
        slots = [(k, a.slot) for k, a in enumerate(arguments) if isinstance(a, Pointer)]

        def run(addresses: Sequence[int]) -> None:
            numbers_now = numbers.copy()
            for place, slot in slots:
                numbers_now[place] = addresses[slot]
            launch(self._stream, config, code, *numbers_now)

        return run

    def recorded(self, launches: Callable[[], None]) -> Callable[[], None]:
        stream = _Graph.new_stream(self._driver, self._check)
        self._ready.recording = self._core.Stream.from_handle(int(stream))
        try:
            graph = _Graph(self._driver, self._check, stream, launches)
        finally:
            del self._ready.recording
            self._driver.cuStreamDestroy(stream)
        return lambda: graph.launch(self._stream.handle)

    def _loaded(self, kernel: CudaKernel) -> object:
        """The kernel as the driver has it."""
        loaded = self._kernels.get(kernel)
        if loaded is None:
            compiled = binary(kernel, self._capability)
            code = self._core.ObjectCode.from_cubin(compiled.code)
            loaded = self._kernels[kernel] = code.get_kernel(compiled.entry)
        return loaded


def _empty(value: object) -> tuple[tuple[int, ...], np.dtype] | None:
    """Shape and dtype of an array of another library without entries."""
    interface: Namespace | None = getattr(value, "__cuda_array_interface__", None)
    if interface is None or all(interface["shape"]):
        return None
    return tuple(interface["shape"]), np.dtype(interface["typestr"])


class _Graph:
    """A CUDA graph of what a function launches on a stream, which records and runs nothing.

    The default stream cannot record, so there is one for that; graphs run on any stream.
    """

    def __init__(
        self,
        driver: ModuleType,
        done: Callable[[Answer], None],
        stream: SupportsInt,
        launches: Callable[[], None],
    ) -> None:
        self._driver, self._check = driver, done
        here = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        done(driver.cuStreamBeginCapture(stream, here))
        try:
            launches()
        finally:
            answer = driver.cuStreamEndCapture(stream)
        done(answer)
        instance = driver.cuGraphInstantiate(answer[1], 0)
        driver.cuGraphDestroy(answer[1])
        done(instance)
        self._graph = instance[1]

    @staticmethod
    def new_stream(driver: ModuleType, done: Callable[[Answer], None]) -> SupportsInt:
        """A stream that waits for no other one."""
        answer = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        done(answer)
        return answer[1]

    def launch(self, stream: object) -> None:
        self._check(self._driver.cuGraphLaunch(self._graph, stream))

    def __del__(self) -> None:
        if hasattr(self, "_graph"):
            self._driver.cuGraphExecDestroy(self._graph)


class _Exported:
    """A device array as other libraries read it; it keeps the memory alive."""

    def __init__(self, array: DeviceArray) -> None:
        self._array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        array = self._array
        return {
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (array.address, False),
            "version": 3,
        }

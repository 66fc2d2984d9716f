"""Calls on a GPU that the stub of a driver stands in for; run by test_gpu_calls.py.

Prints a JSON object: for each case below the events that the driver saw, and what the case found.
"""

import ctypes
import json
import os
import sys
import threading

import numpy as np

if "cupy" in sys.argv:
    import cupy_stub

    cupy_stub.install()

import fdiff
from fdiff.kernels.cuda import cuda_compiler
from fdiff.kernels.cuda.devices import launch_graphs
from fdiff.kernels.cuda.devices.device import Pointer, device
from fdiff.kernels.cuda.devices.strided_copies import _kernel

STUB = ctypes.CDLL(sys.argv[1])
STUB.stub_events.restype = ctypes.c_char_p
X = np.linspace(0.1, 1.0, 6)
DLPACK_CUDA = 2  # kDLCUDA
PARAMETERS = {}  # of kernels by name, from the programs that were made


@ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, ctypes.POINTER(ctypes.c_void_p)
)
def run(entry, blocks, threads, arguments):
    """Run the text of a kernel by one thread, which is right for loops over a grid."""
    called(entry, arguments)()


RECORDED = []


@ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, ctypes.POINTER(ctypes.c_void_p)
)
def keep(entry, blocks, threads, arguments):
    """A launch on a stream that records: its number."""
    RECORDED.append(called(entry, arguments))
    return len(RECORDED) - 1


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def replay(launch):
    RECORDED[launch]()


def called(entry, arguments):
    """The call of a kernel with the arguments that it has now."""
    (kernel,) = [k for k in PARAMETERS.values() if f"{len(k.name)}{k.name}B".encode() in entry]
    given = []
    for k, p in enumerate(kernel.parameters):
        kind = {"i8": ctypes.c_int64, "f8": ctypes.c_double, "u8": ctypes.c_uint64}[p.dtype]
        value = ctypes.cast(arguments[k], ctypes.POINTER(ctypes.c_int64 if p.address else kind))[0]
        given.append(ctypes.cast(value, ctypes.POINTER(kind)) if p.address else value)
    cuda = type(
        "cuda", (), {"grid": staticmethod(lambda _: 0), "gridsize": staticmethod(lambda _: 1)}
    )
    thread = type("x", (), {"x": 0})
    cuda.blockIdx = cuda.threadIdx = thread
    cuda.blockDim = cuda.gridDim = type("x", (), {"x": 1})
    words = type("rt", (), {"sin": np.sin, "cos": np.cos})
    space = {"cuda": cuda, "rt": words, "math": words, "np": np}
    exec(kernel.text, space)
    return lambda: space[kernel.name](*given)


class Foreign:
    """A device array of another library, on a stream of its own if it names one."""

    def __init__(self, array, stream=None, *, writeable=False):
        self.array, self.stream, self.readonly = array, stream, not writeable

    @property
    def __cuda_array_interface__(self):
        a = self.array
        described = {"shape": a.shape, "typestr": a.dtype.str, "strides": a.strides}
        return {
            **described,
            "data": (a.ctypes.data, self.readonly),
            "version": 3,
            "stream": self.stream,
        }


class Exchanged:
    """A device array of another library that speaks DLPack alone."""

    def __init__(self, array):
        self.array, self.asked = array, []

    def __dlpack_device__(self):
        return DLPACK_CUDA, 0

    def __dlpack__(self, *, stream=None, **_):
        """NumPy's own capsule, in which the type of the device is another one."""
        self.asked.append(stream)
        capsule = self.array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        managed = pointer(capsule, b"dltensor")
        ctypes.cast(managed, ctypes.POINTER(ctypes.c_int32))[2] = DLPACK_CUDA  # behind the address
        return capsule


def remember(program):
    PARAMETERS.update({k.name: k for k in program.kernels})
    return program


made = cuda_compiler.cuda_program
cuda_compiler.cuda_program = lambda *given, **named: remember(made(*given, **named))


def host(array):
    """The entries of an array on the device, which lie in the memory of the host here."""
    data = array.__cuda_array_interface__["data"][0]
    return np.ctypeslib.as_array(
        ctypes.cast(data, ctypes.POINTER(ctypes.c_double)), array.shape
    ).tolist()


def double(x):
    return x + x


on_gpu = fdiff.jit(double, device="cuda")


def arrays_of_numpy():
    return on_gpu(X).tolist()


def again():
    return on_gpu(X + 1.0).tolist()


def device_arrays():
    found = on_gpu(Foreign(X))
    return [type(found).__module__, host(found)]


def another_stream():
    return host(on_gpu(Foreign(X, stream=4711)))


def dlpack():
    given = Exchanged(X.copy())
    return [host(on_gpu(given)), given.asked]


def strided_dlpack():
    PARAMETERS["copy_strided"] = _kernel(1, 8)
    return host(on_gpu(Exchanged(np.repeat(X, 2)[::2])))


def into_arrays_of_the_caller():
    if "cupy" in sys.argv:  # arrays of the stub of CuPy are NumPy's, which do not lie on a GPU
        return None
    PARAMETERS["copy_strided"] = _kernel(1, 8)
    out = np.zeros(12)
    place = Foreign(out[::2], writeable=True)
    assert on_gpu(Foreign(X), out=place) is place
    return out.tolist()


def twice_the_same():
    """The second of two equal results is copied on the device."""
    return [host(a) for a in fdiff.jit(lambda x: (x + x, x + x), device="cuda")(Foreign(X))]


def graphs():
    """Three calls with the same addresses, one with others; then as many addresses as are kept."""
    own = device("test")
    memory = np.zeros((12, 6))
    memory[0] = X
    kernel = PARAMETERS["copy_strided"] = _kernel(1, 8)
    one = np.dtype(np.uint64)
    numbers = [6, 0, 0, 6, 1, 1]
    launches = [
        own.prepare(kernel, 1, 32, [Pointer(k, 6, one), Pointer(k + 1, 6, one), *numbers])
        for k in range(2)
    ]
    kept = [launch_graphs.LaunchGraphs(own, launches)]

    def go(*rows):
        kept[0]([memory[row].ctypes.data for row in rows])

    for _ in range(3):
        memory[1:] = 0.0
        go(0, 1, 2)
    again = memory[2].tolist()
    go(0, 3, 4)
    most = STUB.stub_graphs()
    for k in range(3, 9):
        for _ in range(2):
            go(0, k, k + 1)
    most = max(most, STUB.stub_graphs())
    found = [again, memory[4].tolist(), most]
    kept.clear()
    return [*found, STUB.stub_graphs()]


def graphs_of_calls():
    """Calls of one launch, for once graphs; and whether more launches are, switched off or not."""
    launch_graphs.LEAST = 1
    tripled = fdiff.jit(lambda x: x + x + x, device="cuda")
    found = [host(tripled(Foreign(X))) for _ in range(4)]
    os.environ[launch_graphs.SWITCH] = "0"
    off = launch_graphs.graphs_wanted(100)
    launch_graphs.LEAST = 4
    del os.environ[launch_graphs.SWITCH]
    return [found, off, launch_graphs.graphs_wanted(3), launch_graphs.graphs_wanted(4)]


def strided():
    PARAMETERS["copy_strided"] = _kernel(1, 8)
    return host(on_gpu(Foreign(np.repeat(X, 2)[::-2])))


def another_thread():
    found = []
    one = threading.Thread(target=lambda: found.append(on_gpu(X).tolist()))
    one.start()
    one.join()
    return found[0]


def captured():
    data = np.arange(6.0)
    return host(fdiff.jit(lambda x: x + data, device="cuda")(Foreign(X)))


def no_entries():
    """All temporaries are empty, also tiles of rows that are as long as no memory is."""

    def f(x):
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return e / np.sum(e, axis=1, keepdims=True)

    return fdiff.jit(f, device="cuda")(Foreign(np.empty((0, 1 << 40)))).shape


def libraries():
    """Large products and factorisations by cuBLAS and cuSOLVER, where CuPy is installed."""
    if "cupy" not in sys.argv:
        return []
    rng = np.random.default_rng(3)
    a, b, low = rng.normal(size=(130, 130)), rng.normal(size=(130, 130)), rng.normal(size=(70, 70))
    spd = low @ low.T + np.eye(70)
    functions = {
        "matmul": (lambda a, b: a @ b, (a, b)),
        "matmul of a transpose": (lambda a, b: a.T @ b, (a, b)),
        "solve": (np.linalg.solve, (spd, low[:, :3])),
        "inv": (np.linalg.inv, (spd,)),
        "det": (np.linalg.det, (spd / 10.0,)),
        "slogdet": (lambda a: np.linalg.slogdet(a)[1], (spd,)),
        "cholesky": (np.linalg.cholesky, (spd,)),
    }
    return {
        name: off(f(*args), fdiff.jit(f, device="cuda")(*args))
        for name, (f, args) in functions.items()
    }


def off(wanted, found):
    """The largest difference, as a share of the largest entry."""
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))


def how_it_runs():
    return repr(on_gpu)


CASES = (
    arrays_of_numpy, again, device_arrays, another_stream, strided, dlpack, strided_dlpack,
    into_arrays_of_the_caller, twice_the_same, another_thread, captured, no_entries, libraries,
    how_it_runs, graphs, graphs_of_calls,
)  # fmt: skip
STUB.stub_runs_kernels_by(run)
STUB.stub_records_by(keep, replay)
outcome = {}
for case in CASES:
    STUB.stub_forget()
    value = case()
    outcome[case.__name__] = {
        "events": STUB.stub_events().decode().split("\n")[:-1],
        "found": value,
    }
fdiff.cache_clear()
outcome["live"] = STUB.stub_live()
print(json.dumps(outcome))

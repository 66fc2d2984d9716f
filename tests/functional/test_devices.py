"""`device="cuda"` where there is no GPU: what is refused, and in which words.

What runs on a device is tested on Numba's simulator, in processes of its own (tests/cuda).
"""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import fdiff
from fdiff.device_arrays import lies_on_device
from fdiff.errors import DeviceError, InputError, UnsupportedError
from fdiff.kernels.cuda.devices import adapter, driver
from fdiff.kernels.cuda.devices.driver import DriverState
from fdiff.tree import flatten

X = np.array([1.0, 2.0, 3.0])
PREPARED = (
    fdiff.jit, fdiff.grad, fdiff.value_and_grad, fdiff.jacobian, fdiff.jacrev, fdiff.jacfwd,
    fdiff.hessian, fdiff.vjp, fdiff.jvp, fdiff.hvp, fdiff.vhp, fdiff.vmap,
)  # fmt: skip
each_operator = pytest.mark.parametrize("operator", PREPARED, ids=lambda op: op.__name__)


def f(x):
    return np.sum(x * x)


class Foreign:
    """An array of another library on a GPU, as far as its protocol tells."""

    def __init__(self, array=X):
        self.__dict__["given"] = array

    @property
    def __cuda_array_interface__(self):
        a = self.given
        return {
            "shape": a.shape,
            "typestr": a.dtype.str,
            "data": (a.ctypes.data, False),
            "version": 3,
        }


@pytest.fixture
def no_simulator(monkeypatch):
    monkeypatch.delenv(adapter.SIMULATOR, raising=False)


@pytest.fixture
def installed(no_simulator, monkeypatch):
    """An environment with the packages of the extra, of CUDA 12.9, whatever is installed here."""
    monkeypatch.setattr(adapter, "installed", lambda name: True)
    monkeypatch.setattr(adapter, "toolkit", lambda: (12, 9))


def refused(words, way, operator=fdiff.grad):
    """The call raises the error of these words, and shows the user's line."""
    with pytest.raises(DeviceError) as caught:
        called(operator, device="cuda")
    text = str(caught.value)
    assert re.match(
        rf"{operator.__name__}\((f|sin)\): device='cuda' was asked for, but {words}", text
    )
    assert "test_devices.py" in text
    assert text.splitlines()[-1].startswith(way)


# --- settings -------------------------------------------------------------------------------------


@each_operator
@pytest.mark.parametrize("device", ["gpu", "CUDA", None, 0, [], ["cuda"]])
def test_unknown_devices_are_refused(operator, device):
    words = f"{operator.__name__}(f): device must be one of 'cpu', 'cuda', not {device!r}."
    with pytest.raises(InputError, match=f"^{re.escape(words)}"):
        operator(f, device=device)


@pytest.mark.parametrize(
    ("device", "way"),
    [
        ("cuda:1", "Write device='cuda', and set CUDA_VISIBLE_DEVICES=1 before Python starts"),
        ("gpu", "Write device='cuda'."),
        ("CUDA", "Write device='cuda'."),
        ("host", "Write device='cpu', or leave device out."),
        ("tpu", "Leave device out to run on the CPU."),
        (np.zeros(2), "Leave device out to run on the CPU."),
    ],
)
def test_the_way_out_fits_what_was_written(device, way):
    with pytest.raises(InputError) as caught:
        fdiff.grad(f, device=device)
    assert str(caught.value).splitlines()[-1].strip().startswith(way)


def called(operator, **options):
    """What the operator gives at X, its arrays in a row."""
    function = np.sin if operator is fdiff.vmap else f
    vectors = {"vjp": (None,), "jvp": (X,), "hvp": (X,), "vhp": (X,)}.get(operator.__name__, ())
    return flatten(operator(function, **options)(X, *vectors))[0]


@each_operator
def test_the_cpu_may_be_named(operator):
    pairs = list(zip(called(operator, device="cpu"), called(operator), strict=True))
    assert pairs
    assert all(np.array_equal(one, other) for one, other in pairs)


def test_the_outermost_call_decides():
    inner = fdiff.jit(f, device="cuda")
    words = r"^jit\(f\): device='cuda' was asked for inside grad\(f\), which runs on the CPU"
    with pytest.raises(InputError, match=words):
        fdiff.grad(inner)(X)
    with pytest.raises(InputError, match="inside vmap"):
        fdiff.vmap(inner)(np.ones((2, 3)))


def test_tapes_of_functions_for_a_device_need_none():
    one, other = fdiff.grad(f, device="cuda"), fdiff.grad(f)
    assert str(fdiff.make_tape(one, X)) == str(fdiff.make_tape(other, X))


def test_kernels_for_a_gpu_are_shown_without_one():
    text = fdiff.source(fdiff.grad(f), X, device="cuda")
    assert re.search(r"^# .+ blocks of 256 threads\ndef kernel\w*\(", text)
    assert text == fdiff.source(fdiff.grad(f, device="cuda"), X, device="cuda")
    with pytest.raises(InputError, match=r"source\(f\): stage='fuse' is a pass for the CPU"):
        fdiff.source(f, X, stage="fuse", device="cuda")
    with pytest.raises(UnsupportedError, match="has no kernel"):
        fdiff.source(np.linalg.eigvalsh, np.eye(2), device="cuda")


# --- why there is no CUDA -------------------------------------------------------------------------


@each_operator
def test_without_a_driver(installed, monkeypatch, operator):
    monkeypatch.setattr(driver, "LIBRARY", "libcuda-that-is-not-there.so")
    words = r"there is no CUDA driver here: libcuda-that-is-not-there.so was not found\."
    refused(words, "Install NVIDIA's driver, or set NUMBA_ENABLE_CUDASIM=1", operator)


def test_immediate_calls_raise_too(installed, monkeypatch):
    monkeypatch.setattr(driver, "LIBRARY", "libcuda-that-is-not-there.so")
    for call in (fdiff.jacobian, fdiff.hessian, fdiff.vjp):
        with pytest.raises(DeviceError, match=rf"^{call.__name__}\(f\): device='cuda' was asked"):
            call(f, X, device="cuda")
    with pytest.raises(DeviceError, match=r"^grad\.compile\(f\)|^grad\(f\)"):
        fdiff.grad(f, device="cuda").compile("f8[3]")


def test_a_driver_that_is_older_than_the_code(installed, monkeypatch):
    monkeypatch.setattr(adapter, "driver_state", lambda: DriverState("", 11040, ("GPU (8.0)",)))
    words = (
        r"the CUDA driver is older than the PTX that would be made: it supports CUDA 11\.4,"
        r" and the installed toolkit is for CUDA 12\.9\."
    )
    refused(words, "Update the driver, or install the extra [cuda11]")


def test_drivers_of_the_same_or_a_later_major_version_serve(installed, monkeypatch):
    for version in (12000, 12090, 13020):
        monkeypatch.setattr(adapter, "driver_state", lambda v=version: DriverState("", v, ("GPU",)))
        assert adapter.fault() is None


def test_without_the_extra(no_simulator, monkeypatch):
    monkeypatch.setattr(adapter, "installed", lambda name: False)
    words = r"the package for CUDA is not installed: there is no numba_cuda\."
    refused(words, "Write pip install 'numba-fdiff[cuda12]', or [cuda13]")


def test_a_toolkit_that_is_broken(installed, monkeypatch):
    def broken():
        raise OSError("libnvJitLink.so.12: cannot open shared object file")

    monkeypatch.setattr(adapter, "driver_state", lambda: DriverState("", 12080, ("GPU",)))
    monkeypatch.setattr(adapter, "toolkit", broken)
    refused("the CUDA toolkit of this environment cannot be used: libnvJitLink", "Install it again")


class Library:
    """A driver's library that answers as it is told."""

    def __init__(self, code=0, version=12080, devices=()):
        self.code, self.version, self.devices = code, version, devices

    def cuDriverGetVersion(self, place):  # noqa: N802 - the driver's own name
        place._obj.value = self.version
        return 0

    def cuInit(self, _):  # noqa: N802 - the driver's own name
        return self.code

    def cuDeviceGetCount(self, place):  # noqa: N802 - the driver's own name
        place._obj.value = len(self.devices)
        return 0

    def cuDeviceGet(self, place, k):  # noqa: N802 - the driver's own name
        place._obj.value = k
        return 0

    def cuDeviceGetName(self, place, size, device):  # noqa: N802 - the driver's own name
        place.value = self.devices[device.value][0]
        return 0

    def cuDeviceGetAttribute(self, place, which, device):  # noqa: N802 - the driver's own name
        place._obj.value = self.devices[device.value][1 + (which == 76)]
        return 0


def test_what_a_driver_says(monkeypatch):
    for library, state in [
        (Library(100), DriverState("it finds no GPU", 12080, ())),
        (Library(34), DriverState("it is a stub of the toolkit, not a driver", 12080, ())),
        (Library(999), DriverState("it does not start (CUDA error 999)", 12080, ())),
        (Library(devices=[(b"Tesla", 7, 5)]), DriverState("", 12080, ("Tesla (7.5)",))),
    ]:
        monkeypatch.setattr(driver.ctypes, "CDLL", lambda name, found=library: found)
        assert driver.driver_state() == state
    monkeypatch.setattr(driver.ctypes, "CDLL", lambda name: object())
    assert "is no CUDA driver" in driver.driver_state().fault


def test_a_driver_without_a_gpu(installed, monkeypatch):
    monkeypatch.setattr(driver.ctypes, "CDLL", lambda name: Library(100))
    refused("no CUDA driver works here: it finds no GPU.", "Install NVIDIA's driver")


# --- arrays on a GPU, given to the CPU ------------------------------------------------------------


class InDlpack:
    def __init__(self, kind):
        self.kind = kind

    def __dlpack_device__(self):
        return self.kind, 0


class OnHost:
    """As arrays of torch and JAX are in the memory of the host."""

    @property
    def __cuda_array_interface__(self):
        raise AttributeError("not on a GPU")


class InGraph:
    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("a tensor that requires grad: use detach()")


def test_arrays_on_a_gpu_are_known_by_their_protocol():
    assert all(map(lies_on_device, (Foreign(), InDlpack(2), InDlpack(13), InGraph())))
    others = (X, X[0], 1.0, 1, "cuda", None, [X], OnHost(), InDlpack(1), object())
    assert not any(map(lies_on_device, others))


@each_operator
def test_a_device_array_on_the_cpu_is_refused(operator):
    prepared = operator(f)
    with pytest.raises(InputError) as caught:
        prepared(Foreign())
    text = str(caught.value)
    assert "an array of type Foreign lies on a GPU, and the call runs on the CPU." in text
    assert f"Write {operator.__name__}(f, device='cuda')" in text


def test_a_device_array_is_refused_wherever_it_is_given():
    captured, words = Foreign(), "an array of type Foreign lies on a GPU"
    for call in (
        lambda: fdiff.jacobian(f, Foreign()),
        lambda: fdiff.hessian(f, (X, Foreign())),
        lambda: fdiff.vjp(np.sin, X, Foreign()),
        lambda: fdiff.hvp(f)(X, Foreign()),
        lambda: fdiff.grad(lambda x, data: np.sum(x * data))(X, Foreign()),
        lambda: fdiff.grad(lambda p: np.sum(p["a"]))({"a": Foreign()}),
        lambda: fdiff.grad(lambda x: np.sum(x * captured))(X),
    ):
        with pytest.raises(InputError, match=words):
            call()


# --- nothing of it is loaded unasked, and the state -----------------------------------------------


def printed(code, **variables):
    environment = {**os.environ, **variables}
    environment.pop(adapter.SIMULATOR, None)
    run = [sys.executable, "-c", code]
    return subprocess.run(run, check=True, capture_output=True, text=True, env=environment).stdout


def test_without_a_device_nothing_of_cuda_is_imported():
    code = (
        "import sys, fdiff, numpy as np\n"
        "fdiff.jit(fdiff.grad(lambda x: np.sum(x * x)))(np.ones(3))\n"
        "unwanted = ('numba', 'numba_cuda', 'cuda.core', 'cuda.bindings', 'fdiff.kernels.cuda')\n"
        "print([m for m in sys.modules if m.startswith(unwanted)])"
    )
    assert printed(code).strip() == "[]"


def test_doctor_tells_the_state(capsys, installed, monkeypatch):
    monkeypatch.setattr(driver, "LIBRARY", "libcuda-that-is-not-there.so")
    fdiff.doctor()
    found = dict(re.findall(r"^(\S+(?: \S+)?)  +(.+)$", capsys.readouterr().out, re.MULTILINE))
    names = "fdiff python system numpy scipy numba llvmlite llvm processor cache threads settings"
    assert set(names.split()) <= set(found)
    assert found["fdiff"] == fdiff.__version__
    assert found["numpy"] == np.__version__
    assert found["cuda driver"] == "libcuda-that-is-not-there.so was not found"
    assert found["device='cuda'"].startswith("no: there is no CUDA driver here")


def test_doctor_never_raises(capsys, monkeypatch):
    def broken(*_):
        raise OSError("broken\nin two lines")

    state = sys.modules["fdiff.kernels.fault_report"]
    monkeypatch.setattr(state, "_processor", broken)
    monkeypatch.setattr(state, "threads", broken)
    monkeypatch.setattr(state.disk_cache, "directory", broken)
    monkeypatch.setattr(adapter, "fault", broken)
    monkeypatch.setattr(adapter, "toolkit", broken)
    fdiff.doctor()
    assert capsys.readouterr().out.count("not known: OSError: broken\n") == 5


@pytest.mark.slow
def test_doctor_tells_a_cache_that_is_off():
    code = "import fdiff; fdiff.doctor()"
    assert re.search(
        r"^cache +off \(FDIFF_CACHE_DIR\)$", printed(code, FDIFF_CACHE_DIR="off"), re.MULTILINE
    )

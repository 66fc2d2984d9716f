"""What is on disk may be damaged, too large, of others, of another version; the disk may be full.

Nothing of that is read, nothing is half written, and numbers are those of this version.
"""

import compileall
import errno
import gc
import os
import random
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from faults_support import LONG

import fdiff
from fdiff import autograd
from fdiff.kernels import disk_cache, fault_report, loaded_code

NOBODY = 65534
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
PACKAGE = Path(fdiff.__file__).parent


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(disk_cache.KEY, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def open_folder(monkeypatch):
    """A cache directory that other users can reach."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        monkeypatch.setenv("FDIFF_CACHE_DIR", f"{place}/cache")
        disk_cache.write("entry", "code", b"machine code")
        yield disk_cache.directory()


def in_child(check):
    """Run `check` in a forked child; whether it came to its end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check()
            status = 0
        except BaseException as error:  # noqa: BLE001 - it is printed, and the child must end
            os.write(2, f"{error!r}\n".encode())
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ------------------------------------------------------------------------------ damaged entries


def flipped(rng, data):
    place = rng.randrange(len(data) if rng.random() < 0.5 else min(70, len(data)))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def another_length(rng, data):
    at = len(disk_cache._MAGIC)
    length = rng.choice([0, 1, len(data), 1 << 20, 1 << 62, (1 << 64) - 1])
    return data[:at] + length.to_bytes(8, "little") + data[at + 8 :]


CONTENTS = [
    flipped,
    another_length,
    lambda rng, data: data[: rng.randrange(len(data))],
    lambda rng, data: data + rng.randbytes(rng.randint(1, 99)),
    lambda rng, data: rng.randbytes(len(data)),
    lambda rng, data: data[rng.randrange(1, len(data)) :],
    lambda rng, data: data * 2,
    lambda rng, data: b"",
    lambda rng, data: data.replace(b"fdiff cache 3", b"fdiff cache 2"),
    lambda rng, data: bytes(len(data)),
]


def in_place(make):
    def fault(path):
        path.unlink()
        make(path)

    return fault


def bound_socket(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))  # such names may have 100 characters


def sparse(size):
    def grow(path):
        with path.open("ab") as file:
            file.truncate(size)

    return grow


PLACES = [
    in_place(Path.mkdir),
    in_place(os.mkfifo),
    in_place(bound_socket),
    in_place(lambda path: path.symlink_to("/dev/zero")),
    in_place(lambda path: path.symlink_to(path)),
    in_place(lambda path: path.symlink_to(path.with_name("other.kernel"))),
    in_place(lambda path: shutil.copy(path.with_name("other.kernel"), path)),
    in_place(lambda path: path.hardlink_to(path.with_name("other.kernel"))),
    sparse(10 << 30),
    sparse(1 << 40),
    lambda path: path.chmod(0o622),
    lambda path: path.chmod(0o606),
]


@pytest.mark.slow
def test_a_thousand_damaged_entries_are_absent(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(20)
    for k in range(10_000 if LONG else 1000):
        if folder.is_dir():
            for left in folder.iterdir():
                left.rmdir() if left.is_dir() and not left.is_symlink() else left.unlink()
        payload, other = rng.randbytes(rng.randrange(300)), rng.randbytes(40)
        disk_cache.write("entry", "code", payload)
        disk_cache.write("other", "code", other)
        path = disk_cache.path_of("entry")
        whole = path.read_bytes()
        assert disk_cache.read("entry", "code") == payload
        assert disk_cache.read("entry", "text") is None
        damaged = whole
        if k % 3:
            damaged = CONTENTS[k % len(CONTENTS)](rng, whole)
            path.write_bytes(damaged)
        else:
            PLACES[k // 3 % len(PLACES)](path)
            damaged = None
        found = disk_cache.read("entry", "code")
        assert found is None or (damaged == whole and found == payload), k
        assert disk_cache.read("other", "code") == other


def test_nothing_is_read_of_an_entry_that_is_too_long(folder, monkeypatch):
    disk_cache.write("entry", "code", b"machine code")
    for size in (10 << 30, 1 << 40):
        sparse(size)(disk_cache.path_of("entry"))
        tracemalloc.start()
        begin = time.perf_counter()
        assert disk_cache.read("entry", "code") is None
        assert time.perf_counter() - begin < 1.0
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
    monkeypatch.setattr(disk_cache, "_LARGEST", 100)
    disk_cache.write("long", "code", bytes(101))
    assert not disk_cache.has("long")


# ---------------------------------------------------------------------------------- directories


@pytest.mark.slow
def test_a_directory_that_leads_nowhere_is_no_cache(tmp_path):
    """Of a user that there is not, in a directory that is gone, with a name too long or none."""
    code = (
        "import os, sys, warnings\n"
        "import numpy as np\n"
        "gone = sys.argv[2]\n"
        "os.mkdir(gone); os.chdir(gone); os.rmdir(gone)\n"
        "import fdiff\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    for k in range(3):\n"
        "        g = fdiff.jit(fdiff.grad(lambda x: np.sum(np.sin(x) * float(k))))\n"
        "        assert np.allclose(g(np.ones(3)), k * np.cos(1.0))\n"
        "texts = [str(w.message) for w in told]\n"
        "assert [t.startswith('FDIFF_CACHE_DIR: ') for t in texts] == [True], texts\n"
        "assert 'cannot be used' in fdiff.doctor()['cache']\n"
    )
    chosen = ["~nosuchuser/cache", "relative/cache", f"/{'x' * 300}/cache", "/dev/null/cache"]
    for k, name in enumerate(chosen if LONG else chosen[:2]):
        environment = {**os.environ, "FDIFF_CACHE_DIR": name, "PYTHONPATH": str(PACKAGE.parent)}
        environment.pop("FDIFF_TIER", None)
        command = [sys.executable, "-c", code, "", str(tmp_path / f"gone{k}")]
        subprocess.run(command, env=environment, check=True, timeout=120)


@pytest.mark.parametrize("name", ["~nosuchuser/cache", "/dev/null/cache", "/" + "x" * 300])
def test_such_a_directory_gives_one_warning(name, monkeypatch):
    monkeypatch.setenv("FDIFF_CACHE_DIR", name)
    disk_cache._tell_unusable.cache_clear()
    with pytest.warns(UserWarning, match="FDIFF_CACHE_DIR: .* cannot be made or read, .* to off"):
        assert disk_cache.directory() is None
    disk_cache.write("entry", "code", b"machine code")  # a second warning would be an error
    assert disk_cache.read("entry", "code") is None
    assert not disk_cache.has("entry")
    disk_cache.clear()


def test_without_any_place_there_is_no_cache(monkeypatch):
    def nowhere():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    for variable in ("FDIFF_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setattr(disk_cache.tempfile, "gettempdir", nowhere)
    assert disk_cache.directory() is None


def test_a_directory_that_can_only_be_read_is_read(open_folder, monkeypatch):
    """As in an image: kernels that root has put there are read, and nothing is told."""
    disk_cache.path_of("entry").chmod(0o644)
    open_folder.chmod(0o555)
    monkeypatch.setattr(disk_cache, "writable", lambda path: False)

    def check():
        if ROOT:  # who can write anywhere
            os.setuid(NOBODY)
        assert disk_cache.has("entry")
        assert disk_cache.read("entry", "code") == b"machine code"
        disk_cache.write("more", "code", b"machine code")
        assert not disk_cache.has("more")
        assert "is read only, 1 files" in fault_report._cache()

    assert in_child(check)
    open_folder.chmod(0o700)


def test_home_that_can_only_be_read_is_read_and_what_is_new_goes_elsewhere(tmp_path, monkeypatch):
    home, other = tmp_path / "home", tmp_path / "other"
    other.mkdir()
    for variable in ("FDIFF_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(disk_cache.tempfile, "gettempdir", lambda: str(other))
    disk_cache.write("entry", "code", b"machine code")
    assert disk_cache.directory() == home / ".cache" / "fdiff"
    monkeypatch.setattr(disk_cache, "writable", lambda path: home not in path.parents)
    disk_cache.write("more", "code", b"more code")
    assert disk_cache.directory().parent == other
    assert [disk_cache.read(n, "code") for n in ("entry", "more")] == [
        b"machine code",
        b"more code",
    ]
    assert len([*(home / ".cache" / "fdiff").iterdir()]) == 1


# ---------------------------------------------------------------------------------------- trust


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o722])
def test_what_others_can_write_to_is_not_read(folder, mode):
    disk_cache.write("entry", "code", b"machine code")
    path = disk_cache.path_of("entry")
    path.chmod(mode & 0o666)
    assert not disk_cache.has("entry")
    assert disk_cache.read("entry", "code") is None
    path.chmod(0o600)
    assert disk_cache.read("entry", "code") == b"machine code"
    folder.chmod(mode)
    with pytest.warns(UserWarning, match="others than this user can write to it"):
        assert disk_cache.read("entry", "code") is None


def test_what_others_own_is_not_read(open_folder, monkeypatch):
    """Run by root these are real owners; else this user is told to be another."""
    path = disk_cache.path_of("entry")
    monkeypatch.setattr(disk_cache, "_tell_unusable", lambda chosen: None)
    if not ROOT:
        monkeypatch.setattr(disk_cache.os, "geteuid", lambda: NOBODY)
        assert disk_cache.read("entry", "code") is None
        return
    for place in (path, open_folder):
        os.chown(place, NOBODY, NOBODY)
        assert disk_cache.read("entry", "code") is None
        os.chown(place, 0, 0)
        assert disk_cache.read("entry", "code") == b"machine code"

    def as_another():
        os.setuid(NOBODY)
        assert disk_cache.read("entry", "code") == b"machine code"  # of root, whom all trust

    open_folder.chmod(0o755)
    path.chmod(0o644)
    assert in_child(as_another)
    os.chown(path, NOBODY - 1, NOBODY - 1)
    assert not in_child(as_another)


def test_links_are_not_followed(folder, tmp_path, monkeypatch):
    disk_cache.write("entry", "code", b"machine code")
    path = disk_cache.path_of("entry")
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert not disk_cache.has("entry")
    assert disk_cache.read("entry", "code") is None
    disk_cache.write("entry", "code", b"other code")  # takes the place of the link
    assert (tmp_path / "moved").read_bytes().endswith(b"machine code")
    assert disk_cache.read("entry", "code") == b"other code"
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "link"))
    with pytest.warns(UserWarning, match="cannot be made or read"):
        assert disk_cache.read("entry", "code") is None


def test_drafts_are_private_have_names_that_nobody_can_tell_and_are_removed(folder, monkeypatch):
    opened, names = os.open, []

    def noted(path, flags, mode=0o777):
        handle = opened(path, flags, mode)
        if flags & os.O_CREAT:
            assert flags & os.O_EXCL
            assert stat.S_IMODE(os.fstat(handle).st_mode) == 0o600
            names.append(Path(path).name)
        return handle

    monkeypatch.setattr(disk_cache.os, "open", noted)
    before = os.umask(0)
    try:
        for k in range(20):
            disk_cache.write(f"entry{k}", "code", b"machine code")
    finally:
        os.umask(before)
    assert len(set(names)) == 20
    assert all(len(name) > 20 and name.endswith(".tmp") for name in names)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.suffix for path in folder.iterdir()} == {".kernel"}
    (folder / ".4711-0123456789abcdef.tmp").write_bytes(b"half of an entry")  # of a writer killed
    (folder / "of a user").write_text("kept")
    fdiff.cache_clear(disk=True)
    assert [path.name for path in folder.iterdir()] == ["of a user"]


def test_with_a_secret_only_those_are_read_that_were_written_with_it(folder, monkeypatch, tmp_path):
    disk_cache.write("entry", "code", b"without")
    for key in ("one", "two", "\udcff", "x" * 1000):
        monkeypatch.setenv("FDIFF_CACHE_KEY", key)
        assert disk_cache.read("entry", "code") is None
        assert not disk_cache.has("entry")
        disk_cache.write("entry", "code", key.encode(errors="surrogateescape"))
        assert disk_cache.read("entry", "code") == key.encode(errors="surrogateescape")
        mine = disk_cache.path_of("entry")
        # somebody who can write files of this user, and knows everything but the secret
        for content in (b"evil", b"without"):
            monkeypatch.delenv("FDIFF_CACHE_KEY")
            disk_cache.write("forged", "code", content)
            head = disk_cache._sealed("entry", "code", content)
            monkeypatch.setenv("FDIFF_CACHE_KEY", key)
            size = len(content).to_bytes(8, "little")
            mine.write_bytes(disk_cache._MAGIC + size + head + content)
            assert disk_cache.read("entry", "code") is None
    monkeypatch.setenv("FDIFF_CACHE_KEY", "")
    assert disk_cache.read("entry", "code") == b"without"
    monkeypatch.setenv("FDIFF_CACHE_KEY", "a secret that is told to nobody")
    assert "told to nobody" not in str(fdiff.doctor()["settings"])
    assert "FDIFF_CACHE_KEY=set" in fdiff.doctor()["settings"]


# ------------------------------------------------------------------------------- full disks, forks


def limited(size):
    """No file of this process may be longer: what a full disk does, at once."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_full_disk_leaves_nothing_of_an_entry(folder):
    disk_cache.write("before", "code", b"machine code")

    def check():
        limited(1000)
        disk_cache.write("entry", "code", bytes(5000))
        assert not disk_cache.has("entry")
        assert [path.name for path in folder.iterdir()] == ["before.kernel"]
        disk_cache.write("short", "code", b"machine code")
        assert disk_cache.read("short", "code") == b"machine code"
        g = fdiff.jit(fdiff.grad(lambda x: np.sum(np.sin(x) * np.tanh(x))))
        x = np.linspace(0.1, 0.9, 5)
        exact = np.cos(x) * np.tanh(x) + np.sin(x) / np.cosh(x) ** 2
        np.testing.assert_allclose(g(x), exact, rtol=1e-14)

    assert in_child(check)
    assert {path.suffix for path in folder.iterdir()} == {".kernel"}


def saved(directory):
    x = autograd.tensor(np.linspace(0.0, 1.0, 50_000), requires_grad=True)
    with autograd.graph.save_on_disk(directory):
        y = np.sin(x).sum()
    return x, y


def exact(x):
    return np.array_equal(x.grad.numpy(), np.cos(x.detach().numpy()))


def test_a_full_disk_leaves_nothing_of_a_saved_value(tmp_path):
    def check():
        limited(100_000)
        with pytest.raises(OSError, match="save_on_disk writes 400,000 bytes of a saved value"):
            saved(tmp_path)
        assert [*tmp_path.iterdir()] == []

    assert in_child(check)


@pytest.mark.parametrize("end", ["drops", "runs", "ends"])
def test_files_of_saved_values_belong_to_the_process_that_made_them(end, tmp_path):
    x, y = saved(tmp_path)
    there = [*tmp_path.iterdir()]
    assert len(there) == 1

    def child():
        nonlocal x, y
        if end == "runs":
            y.backward()
            assert exact(x)
        if end != "ends":
            x = y = None
            gc.collect()
        own, loss = saved(tmp_path)
        assert len([*tmp_path.iterdir()]) == 2
        loss.backward()
        assert exact(own)
        own = loss = None
        gc.collect()
        assert [*tmp_path.iterdir()] == there

    assert in_child(child)
    assert [*tmp_path.iterdir()] == there
    y.backward()
    assert exact(x)
    x = y = None
    gc.collect()
    assert [*tmp_path.iterdir()] == []


def test_a_child_says_so_if_its_parent_has_removed_the_files(tmp_path):
    _x, y = saved(tmp_path)

    def child():
        for path in tmp_path.iterdir():
            path.unlink()
        with pytest.raises(
            fdiff.errors.ForkError, match="has removed it since this one was forked"
        ):
            y.backward()

    assert in_child(child)


def test_an_empty_value_needs_no_file(tmp_path):
    x = autograd.tensor(np.zeros(0), requires_grad=True)
    with autograd.graph.save_on_disk(tmp_path, smallest=0):
        y = np.sin(x).sum()
    y.backward()
    assert x.grad.shape == (0,)


# ------------------------------------------------------------------------------ other versions


def forms(tmp_path, text):
    """A folder and a module in every form in which Python loads them; each with this content."""
    source = tmp_path / "source" / "package" / "kernels"
    (source / "below").mkdir(parents=True)
    (source / "module.py").write_text(text)
    (source / "below" / "inner.py").write_text(text)
    yield "sources", source
    bytecode = tmp_path / "bytecode" / "package" / "kernels"
    shutil.copytree(source, bytecode)
    assert compileall.compile_dir(bytecode, quiet=2, legacy=True)
    for path in bytecode.rglob("*.py"):
        path.unlink()
    yield "bytecode", bytecode
    machine_code = tmp_path / "machine code" / "package" / "kernels"
    machine_code.mkdir(parents=True)
    (machine_code / f"module{loaded_code.EXTENSION_SUFFIXES[0]}").write_text(text)
    (machine_code / "below.abi3.so").write_text(text)
    yield "machine code", machine_code
    for name, folder in (("zip of sources", source), ("zip of bytecode", bytecode)):
        archive = tmp_path / f"{name}.zip"
        shutil.make_archive(str(archive.with_suffix("")), "zip", folder.parents[1])
        yield name, archive / "package" / "kernels"


def test_the_digest_tells_versions_in_every_form_of_an_installation(tmp_path, monkeypatch):
    first = dict(forms(tmp_path / "one", "x = 1\n"))
    again = dict(forms(tmp_path / "again", "x = 1\n"))
    other = dict(forms(tmp_path / "two", "x = 2\n"))
    for name, place in first.items():
        for part in (place, place / "module.py"):
            rest = part.relative_to(place)
            if part != place and not {*loaded_code._files(part)} and "zip" not in name:
                assert name == "sources", name
            found = loaded_code.digest(part)
            assert found == loaded_code.digest(part)
            assert found != loaded_code.digest(other[name] / rest), name
            if "bytecode" not in name:  # which holds the time at which it was compiled
                monkeypatch.setattr(loaded_code, "_BEGIN", time.time_ns() + 10**12)
                assert loaded_code.digest(part) == loaded_code.digest(again[name] / rest), name
                monkeypatch.undo()
    monkeypatch.setattr(fdiff, "__version__", "another")
    assert loaded_code.digest(first["sources"]) != found


def test_a_frozen_application_is_told_by_its_program(tmp_path, monkeypatch):
    nowhere = Path("/nowhere/fdiff/kernels")
    found = loaded_code.digest(nowhere)
    for content in ("one program", "another one"):
        (tmp_path / "program").write_text(content)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "program"))
        assert loaded_code.digest(nowhere) != found
        found = loaded_code.digest(nowhere)
    monkeypatch.setattr(sys, "executable", "")
    assert loaded_code.digest(nowhere) != found


def test_code_that_was_replaced_while_a_process_runs_makes_kernels_for_no_other(
    tmp_path, monkeypatch
):
    (place,) = [p for name, p in forms(tmp_path, "x = 1\n") if name == "sources"]
    monkeypatch.setattr(loaded_code, "_BEGIN", time.time_ns() + 10**12)
    before = loaded_code.digest(place)
    monkeypatch.setattr(loaded_code, "_BEGIN", 0)
    assert loaded_code.digest(place) != before
    assert loaded_code.digest(place) == loaded_code.digest(place)
    monkeypatch.setattr(loaded_code, "_OWN", b"another process")
    assert loaded_code.digest(place) not in {before, loaded_code.digest(place / "module.py")}


VALUE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import fdiff
from fdiff import kernels
assert fdiff.__file__.startswith(sys.argv[1]), fdiff.__file__
value, info = fdiff.jit(lambda x: np.sum(x * x))(np.arange(4.0)), kernels.cache_info()
print(value, info.compiled, info.loaded)
"""
ANOTHER_COMPILER = """
_real = module_of

def module_of(text, *rest):
    return _real(text.replace(" * ", " + "), *rest)
"""


def value_of(place, cache):
    """The value, kernels that were compiled and kernels that were on disk, in a process."""
    given = {**os.environ, "FDIFF_CACHE_DIR": str(cache), "PYTHONPATH": "", "FDIFF_BACKGROUND": "0"}
    given.pop("FDIFF_TIER", None)
    done = subprocess.run(
        [sys.executable, "-c", VALUE, str(place)],
        env=given, cwd=cache.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tuple(map(float, done.stdout.split()))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["bytecode", "zip"] if LONG else ["bytecode"])
def test_an_installation_without_sources_loads_no_kernels_of_another(form, tmp_path):
    """Two versions whose compilers differ, and which share a cache directory."""
    places = []
    for name, more in (("one", ""), ("two", ANOTHER_COMPILER)):
        root = tmp_path / name
        shutil.copytree(PACKAGE, root / "fdiff", ignore=shutil.ignore_patterns("__pycache__"))
        with (root / "fdiff" / "kernels" / "llvm" / "text_to_module.py").open("a") as file:
            file.write(more)
        assert compileall.compile_dir(root, quiet=2, legacy=True)
        for path in root.rglob("*.py"):
            path.unlink()
        if form == "zip":
            shutil.make_archive(str(root), "zip", root)
        places.append(root.with_suffix(".zip") if form == "zip" else root)
    for _ in range(2):
        assert value_of(places[0], tmp_path / "cache")[0] == 14.0  # squares
        assert value_of(places[1], tmp_path / "cache")[0] == 12.0  # twice the numbers
    assert value_of(places[0], tmp_path / "cache") == (14.0, 0.0, 1.0)


# --- alarms ---------------------------------------------------------------------------------------

ON_DISK = {
    "read": lambda: disk_cache.read("name", "text"), "has": lambda: disk_cache.has("name"),
    "write": lambda: disk_cache.write("name", "text", b"abc"),
    "trim": lambda: disk_cache.trim(disk_cache.directory()), "clear": disk_cache.clear,
}  # fmt: skip
SYSTEM = {
    "os.open": ("read", "write"), "os.fdopen": ("write",), "os.fstat": ("read",),
    "os.utime": ("read",), "pathlib.Path.lstat": ("read", "has", "write"),
    "pathlib.Path.replace": ("write",), "pathlib.Path.unlink": ("write", "clear"),
    "pathlib.Path.stat": ("read", "has", "write"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:FDIFF_CACHE_DIR")
@pytest.mark.parametrize(
    ("call", "way"), [(call, way) for call, ways in SYSTEM.items() for way in ways]
)
def test_an_alarm_is_no_fault_of_the_disk(call, way, tmp_path, monkeypatch):
    """A TimeoutError is an OSError: it was lost, and the program went on beyond its time."""
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path))
    disk_cache.write("name", "text", b"abc")
    alarm, slow = TimeoutError("of an alarm"), TimeoutError(errno.ETIMEDOUT, "of a network")
    for error in (alarm, slow, OSError(errno.EIO, "of a disk")):

        def fails(*_, error=error, **__):
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(call, fails)
            if error is not alarm:
                ON_DISK[way]()
                continue
            with pytest.raises(TimeoutError, match="of an alarm"):
                ON_DISK[way]()
        disk_cache.write("name", "text", b"abc")
        assert disk_cache.read("name", "text") == b"abc"

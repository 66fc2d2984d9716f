"""Faults of a cache directory, and a process that meets them.

    python damaged_entries.py FOLDER SEED COUNT

The directory holds what one run of `programs` left. `COUNT` times a fault drawn at random befalls
it, and everything is loaded anew: a number that is wrong ends the process with status 1.
"""

import os
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import fdiff
from fdiff import kernels
from fdiff.dispatch.tiers import tiered_execution
from fdiff.kernels import machine_code
from fdiff.kernels.bytecode import execution

X = np.linspace(0.1, 0.9, 6)
ONES = b"\x01\x02\x04\x08\x10\x20\x40\x80"


def programs():
    """Pairs of what is computed and what it must be: kernels alike but for a sign or a number."""
    a, b = X[0] + 1.5, X[1]
    yield fdiff.jit(fdiff.grad(lambda x: np.sum(x * x)))(X), 2 * X
    yield fdiff.jit(fdiff.grad(lambda x: np.sum(np.sin(x))))(X), np.cos(X)
    yield fdiff.jit(fdiff.grad(lambda x: np.sum(np.cos(x))))(X), -np.sin(X)
    yield fdiff.jit(fdiff.grad(lambda x: np.sum(x * x - x)))(X), 2 * X - 1
    matrix = np.array([[a, b], [b, a]])
    yield fdiff.jit(lambda m: np.linalg.det(m))(matrix), a * a - b * b
    yield fdiff.jit(lambda m: np.linalg.inv(m))(matrix), np.linalg.inv(matrix)
    os.environ["FDIFF_TIER"] = "evaluate"
    yield fdiff.grad(lambda x: np.sum(np.sin(x) * x))(X), np.sin(X) + X * np.cos(X)
    del os.environ["FDIFF_TIER"]


def forget():
    """As in a new process: everything that was compiled or loaded is to be found again.

    Functions stay in memory, as there are still tables with their addresses.
    """
    fdiff.cache_clear()
    tiered_execution.forget_runners()
    kernels.cache_clear()
    machine_code._function.cache_clear()
    execution._functions.clear()
    execution._families.clear()


def right():
    return all(np.allclose(found, wanted, rtol=1e-12) for found, wanted in programs())


def befall(rng, folder):
    """One fault, in one to three of the files."""
    fault = rng.choice(FAULTS)
    if fault is gone:
        gone(rng, folder)
        return
    files = sorted(folder.glob("*.kernel"))
    for path in rng.sample(files, rng.randint(1, min(3, len(files)))) if files else ():
        fault(rng, path)


def swapped(rng, path):
    """Two files have each other's names."""
    other = rng.choice(sorted(path.parent.glob("*.kernel")))
    if path.is_file() and other.is_file():
        mine, its = path.read_bytes(), other.read_bytes()
        path.write_bytes(its)
        other.write_bytes(mine)


def copied(rng, path):
    """One file under all names."""
    if path.is_file():
        data = path.read_bytes()
        for other in path.parent.glob("*.kernel"):
            if other.is_file():
                other.write_bytes(data)


def changed(change):
    """What is in the file, in another form."""

    def fault(rng, path):
        if path.is_file() and not path.is_symlink():
            path.write_bytes(change(rng, path.read_bytes()))

    return fault


def flipped(rng, data):
    """A bit, anywhere or in the first line."""
    place = rng.randrange(len(data) if rng.random() < 0.7 else min(60, len(data))) if data else 0
    return (
        data[:place] + bytes([data[place] ^ rng.choice(ONES)]) + data[place + 1 :] if data else b""
    )


def replaced(make):
    """Something that is no file has the name."""

    def fault(rng, path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        make(path)

    return fault


def gone(rng, folder):
    """The directory is not there any more, or cannot be written to, or is something else."""
    shutil.rmtree(folder)
    what = rng.randrange(3)
    if what == 1:
        folder.write_text("a file")
    elif what == 2:
        folder.mkdir(mode=0o500)


FAULTS = [
    swapped, swapped, swapped, copied, gone,
    changed(flipped), changed(flipped), changed(flipped),
    changed(lambda rng, data: data[: rng.randrange(len(data) + 1)]),
    changed(lambda rng, data: data + data[: rng.randint(1, 99)]),
    changed(lambda rng, data: b""),
    changed(lambda rng, data: data.replace(b"fdiff cache 3", b"fdiff cache 2", 1)),
    changed(lambda rng, data: b"fdiff kernel 1" + data[13:]),
    changed(lambda rng, data: rng.randbytes(len(data))),
    replaced(Path.mkdir),
    replaced(lambda path: path.symlink_to("/dev/zero")),
    replaced(lambda path: path.symlink_to(path)),
    replaced(lambda path: os.mkfifo(path) if hasattr(os, "mkfifo") else None),
    replaced(lambda path: path.symlink_to(next(path.parent.glob("*.kernel"), path))),
    lambda rng, path: path.chmod(0) if path.is_file() else None,
    lambda rng, path: path.chmod(0o666) if path.is_file() else None,
]  # fmt: skip


def restore(whole, folder):
    if folder.is_dir():
        shutil.rmtree(folder)
    folder.unlink(missing_ok=True)
    shutil.copytree(whole, folder)


def main(folder, seed, count):
    rng = random.Random(seed)
    os.environ["FDIFF_CACHE_DIR"] = str(folder)
    warnings.filterwarnings("ignore", "FDIFF_CACHE_DIR: .* cannot be made or read", UserWarning)
    assert right()
    with tempfile.TemporaryDirectory() as spare:
        whole = Path(spare) / "whole"
        shutil.copytree(folder, whole)
        for k in range(count):
            restore(whole, folder)
            befall(rng, folder)
            forget()
            if not right():
                print("wrong", seed, k)
                sys.exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

"""Kernels for a GPU compiled without one: text to PTX by NVVM, PTX to machine code by ptxas."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest
from cuda.pathfinder import find_nvidia_binary_utility
from numba.cuda.codegen import CUDACodeLibrary

from fdiff.kernels.cuda.devices import adapter

# NVVM makes PTX for the first and the last: they are of different dialects of LLVM. PTX for the
# first is PTX for those between them as well.
CAPABILITIES = ((7, 5), (8, 0), (9, 0), (10, 0))


class Usage(NamedTuple):
    """What machine code takes of a GPU: registers of a thread, bytes of its stack and spills."""

    registers: int
    stack: int
    spills: int


@lru_cache(maxsize=4)
def library_of(kernel):
    """What Numba makes of a kernel before NVVM: most of the time, and the same for all GPUs."""
    made = []
    asm_strs = CUDACodeLibrary.get_asm_strs

    def noted(library, cc):
        made.append(library)
        return asm_strs(library, cc)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CUDACodeLibrary, "get_asm_strs", noted)
        adapter.compile_ptx(kernel, CAPABILITIES[0])
    return made[0]


@lru_cache(maxsize=4096)
def ptx_of(kernel, capability):
    """PTX of a kernel."""
    (ptx,) = library_of(kernel).get_asm_strs(cc=capability)
    return ptx


@lru_cache(maxsize=1)
def ptxas():
    """The path of ptxas, which comes with numba-cuda[cu12]."""
    found = find_nvidia_binary_utility("ptxas")
    assert found, "no ptxas: install numba-cuda[cu12]"
    return found


def usage_of(ptx, capability, folder: Path) -> Usage:
    """What ptxas says of the machine code of some PTX."""
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    arch = "sm_{}{}".format(*capability)
    command = [ptxas(), "-v", f"-arch={arch}", str(source), "-o", str(folder / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"ptxas for {arch}: {done.stderr}")
    said = done.stderr
    registers = max(int(n) for n in re.findall(r"Used (\d+) registers", said))
    stack = max(int(n) for n in re.findall(r"(\d+) bytes stack frame", said))
    spills = sum(int(n) for n in re.findall(r"(\d+) bytes spill", said))
    return Usage(registers, stack, spills)

"""Kernels run by Python, every access to memory checked, as ``compute-sanitizer`` does on a GPU.

Errors are: an index outside of an array (Numba's simulator counts negative ones from the end), an
entry that is read before anything wrote it, two threads that access one entry with no barrier in
between (one of them writing; adding atomically or writing what is there is none), and a barrier
that some threads of a block do not reach. Threads take turns at barriers, in a given order, so that
a kernel does the same in each run.
"""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import numpy as np

from fdiff.kernels.cuda.cuda_program import Launch, Role, contents, entries, evaluate
from fdiff.kernels.cuda.devices import simulated_words
from fdiff.kernels.runtime.status_errors import error_of

GARBAGE = 0x7B  # what memory is full of before it is written
READ, WRITE, AGAIN, ADD = "reads", "writes", "writes what is there to", "adds to"
HARMLESS = {(READ, READ), (READ, AGAIN), (AGAIN, READ), (AGAIN, AGAIN), (WRITE, AGAIN), (ADD, ADD)}
NUMBERS = {"i8": np.int64, "f8": np.float64}


class Memory:
    """An array on the device: which entries are `known`, and who accessed them in this launch."""

    def __init__(self, name, array, *, known=False):
        self.name, self.array = name, array
        self.known = np.full(array.shape, known)
        self.accesses = {}

    @classmethod
    def garbage(cls, name, shape, dtype):
        """Memory that nothing was written to yet."""
        array = np.zeros(shape, dtype)
        array.view("u1")[...] = GARBAGE
        return cls(name, array)

    def access(self, at, kind, who, value=None):
        """Note what a thread does with an entry, or raise an error."""
        here = at if isinstance(at, tuple) else (at,)
        assert all(0 <= k < n for k, n in zip(here, self.array.shape, strict=True)), (
            f"{self.name}[{at}] is outside of {self.array.shape}"
        )
        assert kind is WRITE or self.known[at], f"{self.name}[{at}] is read before it is written"
        if kind is WRITE and self.known[at]:
            new = self.array.dtype.type(value)
            kind = AGAIN if self.array[at].tobytes() == new.tobytes() else WRITE
        others = self.accesses.setdefault(here, set())
        for block, number, phase, earlier in others:
            ordered = block == who.block and (number == who.number or phase < who.phase)
            assert ordered or (earlier, kind) in HARMLESS or self.name == "status", (
                f"thread {who.number} of block {who.block} {kind} {self.name}[{at}], which thread"
                f" {number} of block {block} {earlier}, with no barrier in between"
            )
        others.add((who.block, who.number, who.phase, kind))
        self.known[at] = True


class View:
    """Memory from a position on, as a thread sees it."""

    def __init__(self, memory, who, begin=0):
        self.memory, self.who, self.begin = memory, who, begin

    def offset(self, begin):
        return View(self.memory, self.who, self.begin + begin)

    def at(self, place):
        return self.begin + place if self.begin else place

    def __getitem__(self, place):
        at = self.at(place)
        self.memory.access(at, READ, self.who)
        return self.memory.array[at]

    def __setitem__(self, place, value):
        at = self.at(place)
        self.memory.access(at, WRITE, self.who, value)
        self.memory.array[at] = value

    def add(self, place, value):
        at = self.at(place)
        self.memory.access(at, ADD, self.who)
        self.memory.array[at] += value


# --- threads ------------------------------------------------------------------------------------


class Thread:
    """One thread of a block: it runs until it waits for others; the block lets it go on."""

    def __init__(self, block, number, run):
        self.block, self.number, self.phase = block.number, number, 0
        self.waits_at, self.ended, self.fault, self.exchanged = None, False, None, None
        self._turn, self._go = block.turn, threading.Semaphore(0)
        threading.Thread(target=self._run, args=(run,), daemon=True).start()

    def _run(self, run):
        self._go.acquire()
        try:
            with np.errstate(all="ignore"):
                run(self)
        except Exception as fault:  # noqa: BLE001 - the block raises it in its own thread
            self.fault = fault
        self.ended = True
        self._turn.release()

    def go_on(self):
        self.waits_at = None
        self._go.release()
        self._turn.acquire()
        if self.fault is not None:
            raise self.fault

    def wait(self, what):
        """Wait for the others at a place in the text: for the lanes of a warp, or for all."""
        frame = sys._getframe(2)
        self.waits_at = what, frame.f_code.co_name, frame.f_lineno
        self._turn.release()
        self._go.acquire()


class Block:
    """The threads of a block; one array in shared memory for each place that asks for one."""

    def __init__(self, number, threads, warp, run):
        self.number, self.warp = number, warp
        self.turn = threading.Semaphore(0)
        self.shared = {}
        self.threads = [Thread(self, k, lambda who: run(self, who)) for k in range(threads)]

    def run(self, order):
        while left := [t for t in self.threads[::order] if not t.ended]:
            ready = [t for t in left if t.waits_at is None]
            for thread in ready:
                thread.go_on()
            if not ready:
                self._release()

    def _release(self):
        """Let those go on who have all come: the lanes of a warp, else all threads."""
        warps = [self.threads[k : k + self.warp] for k in range(0, len(self.threads), self.warp)]
        lanes = [w for w in warps if any(t.waits_at and t.waits_at[0] == "lanes" for t in w)]
        some = lanes[0] if lanes else self.threads
        places = {t.waits_at for t in some}
        assert len(places) == 1, f"threads that wait for each other are at {places}"
        for t in some:
            t.waits_at = None
            t.phase += not lanes

    def array(self, shape, dtype):
        frame = sys._getframe(2)
        place = f"shared memory of {frame.f_code.co_name}, line {frame.f_lineno}"
        if place not in self.shared:
            self.shared[place] = Memory.garbage(place, shape, dtype)
        return self.shared[place]


def _words(block, who, blocks):
    """The names that kernel texts use, for one thread."""

    def exchange(value, reach):
        who.exchanged = value
        who.wait("lanes")
        other = block.threads[who.number ^ int(reach)].exchanged
        who.wait("lanes")
        return other

    indices = {"threadIdx": who.number, "blockIdx": who.block,
               "blockDim": len(block.threads), "gridDim": blocks}  # fmt: skip
    cuda = SimpleNamespace(
        **{name: SimpleNamespace(x=n) for name, n in indices.items()},
        syncthreads=lambda: who.wait("barrier"),
        shared=SimpleNamespace(array=lambda *made: View(block.array(*made), who)),
    )
    own = {"exchange": exchange, "offset": View.offset, "atomic_sum": View.add}
    rt = simulated_words._RT.replaced(**own)
    return {"cuda": cuda, "rt": rt, "np": np, "math": simulated_words._MATH, "WARP": block.warp}


# --- programs -----------------------------------------------------------------------------------


def launch(text, name, grid, arguments, *, warp=2, order=1):
    """Run a kernel by a grid of blocks of threads; `order` is -1 if the last ones go first."""
    code = compile(text, f"<{name}>", "exec")
    blocks, threads = grid
    for memory in arguments:
        if isinstance(memory, Memory):
            memory.accesses.clear()

    def run(block, who):
        space = _words(block, who, blocks)
        exec(code, space)
        space[name](*(View(a, who) if isinstance(a, Memory) else a for a in arguments))

    for number in range(blocks)[::order]:
        Block(number, threads, warp, run).run(order)


def run_checked(program, values, numbers, arrays, *, warp, order=1):
    """The outputs of a program for some input arrays."""
    given = {m.name: a for m, a in contents(program, values)}
    given |= {m.name: arrays[m.number] for m in program.of(Role.INPUT)}
    memory = {}
    for m in program.memory:
        dtype = np.dtype("u1" if m.dtype == "b1" else m.dtype)
        if m.name in given:
            array = np.array(given[m.name], order="C").reshape(-1).view(dtype)
            memory[m.name] = Memory(m.name, array, known=True)
        elif m.role is Role.STATUS:
            memory[m.name] = Memory(m.name, np.zeros(1, dtype), known=True)
        else:
            memory[m.name] = Memory.garbage(m.name, entries(m, numbers), dtype)
    steps = [one for s in program.steps for one in ([s] if isinstance(s, Launch) else s.instead)]
    for step in steps:
        kernel, blocks = step.kernel, max(1, evaluate(step.blocks, numbers))
        arguments = [
            memory[name] if p.address else NUMBERS[p.dtype](numbers[name])
            for p, name in zip(kernel.parameters, step.arguments, strict=True)
        ]
        grid = blocks, step.threads
        launch(kernel.text, kernel.name, grid, arguments, warp=warp, order=order)
    for m in program.of(Role.STATUS):
        if status := int(memory[m.name].array[0]):
            raise error_of(status)
    return [_result(m, memory[m.name], numbers) for m in program.of(Role.OUTPUT)]


def _result(m, memory, numbers):
    assert memory.known.all(), f"{m.name} has entries that nothing wrote"
    array = memory.array.reshape([evaluate(d, numbers) for d in m.dims])
    return array.view("b1") if m.dtype == "b1" else array

"""Calls of every kind, whose right numbers are known, for threads and forks.

    python mixed_calls.py threads SEED THREADS CALLS RARITY
    python mixed_calls.py forks SEED FORKS
    python mixed_calls.py process SEED

`RARITY` says how much more seldom what takes milliseconds is called, and caches are dropped.
Status 1 and a line for each wrong number or error; what hangs is ended by its caller.
"""

import gc
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings

import numpy as np
from faults_support import loops_of_any_length

import fdiff
import fdiff.autograd

X = np.linspace(0.1, 0.9, 6)
SIN, COS = np.sin(X), np.cos(X)
WORDS = ("np.sin(y)", "np.cos(y)", "np.exp(-y)", "y * y", "np.tanh(y)", "np.arctan(y)", "y + x")


class Model:
    """An object whose attributes the function reads, and that changes between the calls."""

    def __init__(self):
        self.scale, self.shift = 1.0, X.copy()

    def loss(self, x):
        return np.sum(np.sin(x) * self.scale + x * self.shift)


def square(x):
    return np.sum(np.sin(x) ** 2)


def branching(x):
    return np.sum(np.sin(x)) if x[0] > 0.5 else np.sum(np.cos(x))


def wave(a):
    return lambda x: np.sum(np.sin(a * x))


def trip(carry, row):
    return carry + np.sin(row), None


def root(a):
    far = lambda x: np.abs(x * x - a) > 1e-13 * a
    return fdiff.while_loop(far, lambda x: 0.5 * (x + a / x), 1.0)


def choice(a):
    return fdiff.cond(a > 0.5, np.sin, lambda a: a * 1.0, a)


SHARED = {  # prepared once, called by all threads
    "grad": (fdiff.grad(square), 2 * SIN * COS),
    "value": (fdiff.jit(square), np.sum(SIN**2)),
    "jacobian": (fdiff.jacobian(np.sin), np.diag(COS)),
    "hessian": (fdiff.hessian(square), np.diag(2 * np.cos(2 * X))),
    "vmap": (fdiff.vmap(fdiff.grad(np.sin)), COS),
    "scan": (fdiff.grad(lambda x: fdiff.scan(trip, 0.0, x)[0]), COS),
    "while": (fdiff.vmap(fdiff.grad(root)), 0.5 / np.sqrt(X)),
    "cond": (fdiff.vmap(fdiff.grad(choice)), np.where(X > 0.5, COS, 1.0)),
    "diagonal": (fdiff.hessian_diagonal(square), 2 * np.cos(2 * X)),
}


class Worker:
    """The calls of one thread, with data of its own."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.model = Model()
        self.slope = fdiff.grad(self.model.loss)
        self.table = {"a": 1.0}
        self.read = fdiff.grad(lambda x: np.sum(np.sin(x)) * self.table["a"])
        self.kept = []

    def shared(self):
        prepared, wanted = SHARED[self.rng.choice([*SHARED])]
        return prepared(X), wanted

    def changing_attributes(self):
        self.model.scale = self.rng.random()
        self.model.shift[self.rng.randrange(6)] = self.rng.random()
        if self.rng.random() < 0.1:
            self.model.shift = self.rng.random() * X
        return self.slope(X), COS * self.model.scale + self.model.shift

    def changing_table(self):
        self.table["a"] = self.rng.choice([0.5, 1.5, 2.0, 3])
        return self.read(X), COS * self.table["a"]

    def new_lambda(self):
        a = self.rng.choice([1.0, 2.0, 3.0])
        prepared = fdiff.grad(wave(a))
        if self.rng.random() < 0.3:
            self.kept = [*self.kept[-3:], (prepared, a)]
        if self.kept and self.rng.random() < 0.5:
            prepared, a = self.rng.choice(self.kept)
        return prepared(X), a * np.cos(a * X)

    def new_structure(self):
        """A text that no thread has had, perhaps; its derivative by complex step."""
        lines = "".join(f"    y = {self.rng.choice(WORDS)}\n" for _ in range(3))
        space = {"np": np}
        exec(f"def f(x):\n    y = x\n{lines}    return np.sum(y * x)\n", space)
        f = space["f"]
        steps = 1e-30j * np.eye(6)
        prepared = fdiff.grad(f)
        if self.rng.random() < 0.4:
            prepared.compile(X)
        return prepared(X), np.array([f(X + s).imag / 1e-30 for s in steps])

    def branches(self):
        x = X if self.rng.random() < 0.5 else X + 0.5
        return fdiff.grad(branching)(x), np.cos(x) if x[0] > 0.5 else -np.sin(x)

    def products(self):
        v = np.full(6, self.rng.random())
        which = self.rng.randrange(3)
        if which == 0:
            return fdiff.jvp(np.sin, X, v)[1], COS * v
        if which == 1:
            return fdiff.vjp(np.sin, X, v)[1], COS * v
        return fdiff.hvp(square, X, v)[1], 2 * np.cos(2 * X) * v

    def recorded(self):
        x = fdiff.autograd.tensor(X, requires_grad=True)
        np.sum(np.sin(x) * x).backward()
        return x.grad.numpy(), COS * X + SIN

    def shapes(self):
        n = self.rng.randrange(1, 40)
        x = np.linspace(0.0, 1.0, n)
        return SHARED["grad"][0](x), np.sin(2 * x)

    def nested(self):
        return fdiff.grad(lambda x: np.sum(fdiff.grad(square)(x) ** 2))(X), 2 * np.sin(4 * X)

    def loops(self):
        """Bodies that are new functions, over what changes."""
        a = self.rng.choice([1.0, 2.0, 3.0])
        f = lambda x: fdiff.fori_loop(0, len(x), lambda i, c: c + np.sin(a * x[i]), 0.0)
        return fdiff.grad(f)(X), a * np.cos(a * X)

    def python_loops(self):
        """A plain loop, which is traced once."""
        a = self.rng.choice([1.0, 2.0, 3.0])

        def f(x):
            s, rows = x[0], np.zeros(12)
            for i in range(12):
                s = 0.5 * s + np.sin(a * x[0])
                rows[i] = s
            return np.sum(rows)

        shares = 0.5 ** np.arange(1, 13)
        wanted = shares.sum() + a * np.cos(a * X[0]) * np.sum(2 - 2 * shares)
        return fdiff.grad(f)(X), wanted * np.eye(6)[0]

    HOT = (
        *[shared] * 6, *[changing_attributes] * 6, *[changing_table] * 4, *[products] * 2, shapes,
    )  # fmt: skip
    RARE = (
        *[new_lambda] * 4,
        *[branches] * 4,
        *[recorded] * 2,
        loops,
        python_loops,
        new_structure,
        nested,
    )

    def one(self, rarity=1):
        """A call, and what is wrong with it."""
        call = self.rng.choice(self.RARE if self.rng.random() * rarity < 0.1 else self.HOT)
        try:
            got, wanted = call(self)
        except Exception:  # noqa: BLE001 - whatever it is
            return f"{call.__name__}: {traceback.format_exc(limit=-6)}"
        right = np.shape(got) == np.shape(wanted) and (abs(got - wanted) < 1e-8).all()
        return "" if right else f"{call.__name__}: {got} is not {wanted}"


def disturb(rng, stop, rarity=1):
    """Drop caches, and collect, at any time."""
    while not stop.wait(rng.random() * 0.02 * rarity):
        gc.collect(rng.randrange(3))
        if rng.random() < 0.05:
            fdiff.cache_clear()


def threads(seed, count, calls, rarity):
    sys.setswitchinterval(1e-6)
    wrong, stop = [], threading.Event()

    def work(number):
        worker = Worker(seed * 100 + number)
        wrong.extend(filter(None, [worker.one(rarity) for _ in range(calls)]))

    every = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    disturber = threading.Thread(target=disturb, args=(random.Random(seed), stop, rarity))
    for thread in (*every, disturber):
        thread.start()
    for thread in every:
        thread.join()
    stop.set()
    disturber.join()
    return wrong


def child(seed):
    """What a forked process computes, with a structure that has to be compiled."""
    signal.alarm(60)
    worker = Worker(seed)
    wrong = [worker.one() for _ in range(40)]
    got, wanted = worker.new_structure()
    prepared = fdiff.jit(lambda x: np.sum(np.sin(x) * np.cos(x + float(seed))))
    prepared.compile(X)
    right = np.allclose(got, wanted) and np.isclose(prepared(X), np.sum(SIN * np.cos(X + seed)))
    return [*filter(None, wrong), *([] if right else ["a compiled structure is wrong"])]


def forks(seed, count):
    """Fork at any moment, while threads call, compile, collect and drop caches."""
    sys.setswitchinterval(1e-5)
    rng, stop, wrong = random.Random(seed), threading.Event(), []

    def work(number):
        worker = Worker(seed * 100 + number)
        while not stop.is_set():
            if complaint := worker.one():
                wrong.append(complaint)

    every = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    every.append(threading.Thread(target=disturb, args=(random.Random(seed), stop)))
    for thread in every:
        thread.start()
    for k in range(count):
        time.sleep(rng.random() * 0.01)
        pid = os.fork()
        if not pid:
            status = 1
            try:
                found = child(k)
                print("\n".join(found), flush=True)
                status = bool(found)
            except BaseException:  # noqa: BLE001 - whatever it is
                traceback.print_exc(file=sys.stdout)
                sys.stdout.flush()
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        if status:
            wrong.append(f"fork {k} ended with status {status}")
    stop.set()
    for thread in every:
        thread.join()
    return wrong


def process(seed):
    """What a process on a cold cache computes, beside others that compile the same."""
    worker = Worker(seed % 4)
    found = [worker.one() for _ in range(60)]
    for k in range(4):
        a = float(k)
        prepared = fdiff.grad(lambda x, a=a: np.sum(np.sin(x) * np.exp(-a * x)))
        prepared.compile(X)
        wanted = COS * np.exp(-a * X) - a * SIN * np.exp(-a * X)
        found.append("" if np.allclose(prepared(X), wanted) else f"compiled {k} is wrong")
    return [*filter(None, found)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # functions that are traced again, and forks beside threads
    kind, *numbers = sys.argv[1:]
    run = {"threads": threads, "forks": forks, "process": process}[kind]
    with loops_of_any_length():
        complaints = run(*map(int, numbers))
    print("\n".join(complaints[:20]))
    print(f"{len(complaints)} wrong")
    sys.exit(bool(complaints))

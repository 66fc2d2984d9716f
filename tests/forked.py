"""A process in which a thread differentiates for the first time while children are made.

    python forked.py WAY SEED TRIES

`WAY` is how a child is made: ``fork`` (by `os.fork`, at a moment drawn at random), ``events`` (by
`os.fork`, while the thread imports), or one of the start methods of multiprocessing. Prints one
word for each child: ``good``, ``wrong`` or ``hangs``.
"""

import faulthandler
import multiprocessing
import os
import random
import signal
import sys
import threading
import time

import numpy as np

BOUND = 100.0  # seconds after which a child hangs; other processes may be using the processor
SHOW_STACKS = getattr(signal, "SIGUSR1", signal.SIGTERM)
X = np.linspace(0.1, 0.9, 6)


def long_program(x):
    for k in range(12):
        x = np.sin(x) * np.exp(-x * x) + 0.1 * k
    return np.sum(x * np.linalg.solve(np.eye(x.size) + 0.1 * np.outer(x, x), x))


def first_time():
    """What the thread does: everything that is imported or compiled late."""
    import fdiff

    fdiff.jit(fdiff.value_and_grad(long_program))(X)
    os.environ["FDIFF_TIER"] = "evaluate"
    fdiff.grad(lambda x: np.sum(np.cos(x) * x))(X)
    del os.environ["FDIFF_TIER"]
    from scipy import special

    fdiff.jit(fdiff.grad(lambda x: np.sum(special.erf(x) * x)))(X)


def everything_works():
    """In a child: interpret, compile, evaluate, and all of it in threads."""
    import fdiff

    def checked(found, wanted):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        results.append(True)

    def one(k):
        a = 1.25 + k
        checked(fdiff.grad(lambda x: np.sum(a * x * x))(X), 2 * a * X)
        checked(fdiff.jit(fdiff.grad(lambda x: np.sum(np.sin(a * x))))(X), a * np.cos(a * X))
        solved = fdiff.jit(fdiff.jacobian(lambda x: np.linalg.solve(a * np.eye(6), x)))(X)
        checked(solved, np.eye(6) / a)

    results = []
    threads = [threading.Thread(target=one, args=[k]) for k in range(2)]
    for thread in threads:
        thread.start()
    one(7)
    for thread in threads:
        thread.join()
    return len(results) == 9


def by_fork():
    """The process number of a forked child, whose exit status is 0 if everything works in it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if everything_works() else 1
        finally:
            os._exit(status)
    return child


def outcome(child):
    """How a forked child ends."""
    end = time.monotonic() + BOUND
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "good" if status == 0 else "wrong"
        time.sleep(0.005)
    os.kill(child, SHOW_STACKS)
    time.sleep(1.0)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hangs"


def process_outcome(process):
    """The same for a child of multiprocessing."""
    process.join(BOUND)
    if process.is_alive():
        process.kill()
        return "hangs"
    return "good" if process.exitcode == 0 else "wrong"


def checked():
    sys.exit(0 if everything_works() else 1)


def forked_at_random(rng, tries):
    """Children that are forked one after another while the thread is at work."""
    children = []
    while "fdiff.errors" not in sys.modules:  # until then, fdiff does not hear of forks
        time.sleep(0.0001)
    for _ in range(tries):
        time.sleep(rng.uniform(0.0, 0.3))
        children.append(by_fork())
    return map(outcome, children)


def forked_at_events(rng, tries):
    """A child for some of the modules that the thread imports, forked while it does."""
    children, wanted = [], sorted(rng.sample(range(3, 220), tries))
    for number in wanted:
        while EVENTS[0] < number and THREAD.is_alive():
            time.sleep(0.0001)
        children.append(by_fork())
    return map(outcome, children)


def started_by(way, rng, tries):
    context = multiprocessing.get_context(way)
    children = []
    for _ in range(tries):
        time.sleep(rng.uniform(0.0, 0.3))
        children.append(context.Process(target=checked))
        children[-1].start()
    return map(process_outcome, children)


EVENTS = [0]
THREAD = threading.Thread(target=first_time)


def watch(event, arguments):
    """Stop for a moment where the thread runs a module, with the lock of that module held."""
    if event == "exec" and threading.current_thread() is THREAD and "fdiff" in str(arguments[0]):
        EVENTS[0] += 1
        time.sleep(0.005)


def main(way, seed, tries):
    rng = random.Random(seed)
    if hasattr(faulthandler, "register"):
        faulthandler.register(SHOW_STACKS)  # forked children have it too
    if way == "events":
        sys.addaudithook(watch)
    THREAD.start()
    if way == "fork":
        words = forked_at_random(rng, tries)
    elif way == "events":
        words = forked_at_events(rng, tries)
    else:
        words = started_by(way, rng, tries)
    print(*words)
    THREAD.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

"""Collections of garbage that call Python code, as JAX asks for, while threads take turns."""

import subprocess
import sys
import threading

from fdiff.process.forking import is_running
from fdiff.process.interrupt_safe_locks import TurnLock

HANGS = """
import faulthandler, gc, sys, threading, time
from fdiff.process.forking import _importers
from fdiff.process.interrupt_safe_locks import TurnLock
faulthandler.dump_traceback_later(60, exit=True)
gc.callbacks.append(lambda *_: time.sleep(0))  # lets another thread run
gc.set_threshold(1)
lock, turns = TurnLock(), []
def work():
    for _ in range(15):
        with lock:
            turns.append([])
            time.sleep(0)
        begun = threading.Thread(target=list)
        begun.start()
        begun.join()
workers = [threading.Thread(target=work) for _ in range(4)]
for worker in workers:
    worker.start()
while len(turns) < 60:
    _importers()  # as before a fork
for worker in workers:
    worker.join()
print(len(turns))
"""


def test_threads_that_take_turns_do_not_hang():
    command = [sys.executable, "-c", HANGS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "60\n", done.stderr[-3000:]


def test_a_frame_of_another_thread_runs_until_it_ends():
    frames, inside, leave = [], threading.Event(), threading.Event()

    def waits():
        frames.append(sys._getframe())
        inside.set()
        leave.wait(60)

    worker = threading.Thread(target=waits)
    worker.start()
    assert inside.wait(60)
    ident = worker.ident
    assert is_running(frames[0], ident)
    leave.set()
    worker.join()
    assert not is_running(frames[0], ident)


def test_a_generator_is_inside_until_it_leaves():
    lock = TurnLock()

    def yields():
        with lock:
            yield

    def elsewhere():
        answers.append(lock.taken_elsewhere())

    answers, generator = [], yields()
    for step in (lambda: next(generator), generator.close):
        step()
        worker = threading.Thread(target=elsewhere)
        worker.start()
        worker.join()
    assert answers == [True, False]

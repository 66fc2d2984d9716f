"""What `f` reads of the world outside Python's objects is read again at each call.

`World` is a folder, an environment, a data base, ... all of which hold one number. Each row of
`READERS` is an expression that finds this number, in a way of its own.
"""

import contextlib
import gc
import io
import itertools
import linecache
import lzma
import multiprocessing.shared_memory
import os
import pickle
import queue
import random
import re
import shutil
import socket
import sqlite3
import sys
import tarfile
import threading
import time
import types
import warnings
import weakref
import zipfile
from contextvars import ContextVar
from decimal import getcontext
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.stats

import fdiff
from fdiff.capture import Capture
from fdiff.capture.impure_functions import impurity
from fdiff.dispatch import program
from fdiff.errors import RetraceWarning

# Rows open files and leave them to the garbage collector, as users do.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
X = np.array([0.5, 1.0, 2.0])


class World:
    """A place whose every part holds the number `k`, once it is told to."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.memory = multiprocessing.shared_memory.SharedMemory(create=True, size=8)
        self.argv = list(sys.argv)
        self.kept = Path.cwd(), sys.stdin, threading.current_thread().name, gc.get_threshold()

    def hold(self, k):
        for part in (self._arrays, self._texts, self._archives, self._folders, self.process):
            with contextlib.chdir(self.folder):
                part(k)
        os.chdir(Path(self.folder) / f"d{k}")

    def _arrays(self, k):
        w = np.array([float(k), 0.0])
        np.save("a.npy", w)
        np.savez("a.npz", w=w)
        w.tofile("a.bin")
        scipy.io.savemat("a.mat", {"w": w})

    def _texts(self, k):
        texts = {
            "a.txt": f"{k}\n", "a.json": f'{{"w": {k}}}', "a.ini": f"[a]\nw = {k}\n",
            "a.toml": f"w = {k}\n", "a.xml": f"<a w='{k}'/>", "a.py": f"w = {k}\n", "size": "x" * k,
        }  # fmt: skip
        for name, text in texts.items():
            Path(name).write_text(text)
        Path("a.pickle").write_bytes(pickle.dumps(k))
        linecache.checkcache()
        db = sqlite3.connect("a.db")
        db.executescript("DROP TABLE IF EXISTS a; CREATE TABLE a (w);")
        db.execute("INSERT INTO a VALUES (?)", [k])
        db.commit()
        db.close()

    def _archives(self, k):
        import bz2
        import gzip

        for library, name in ((gzip, "a.gz"), (bz2, "a.bz2"), (lzma, "a.xz")):
            with library.open(name, "wt") as file:
                file.write(str(k))
        with zipfile.ZipFile("a.zip", "w") as archive:
            archive.writestr("w", str(k))
        with tarfile.open("a.tar", "w") as archive:
            archive.add("a.txt")

    def _folders(self, k):
        Path(f"d{k}").mkdir(exist_ok=True)
        shutil.rmtree("many", ignore_errors=True)
        Path("many").mkdir()
        for i in range(k):
            Path(f"many/{i}").touch()
        Path("link").unlink(missing_ok=True)
        Path("link").symlink_to(str(k))

    def process(self, k):
        os.environ.update(FDIFF_WORLD=str(k), LOGNAME=str(k), TZ=f"UTC-{k}")
        time.tzset()
        sys.argv[:] = [str(k)]
        sys.stdin = io.StringIO(str(k))
        threading.current_thread().name = str(k)
        gc.set_threshold(k, 10, 10)
        getcontext().prec = k
        np.set_printoptions(precision=k)
        self.memory.buf[0] = k

    def close(self):
        os.chdir(self.kept[0])
        sys.stdin, threading.current_thread().name = self.kept[1:3]
        gc.set_threshold(*self.kept[3])
        sys.argv[:] = self.argv
        for name in ("FDIFF_WORLD", "LOGNAME", "TZ"):
            os.environ.pop(name, None)
        time.tzset()
        getcontext().prec = 28
        np.set_printoptions(precision=8)
        self.memory.close()
        self.memory.unlink()


@pytest.fixture
def world(tmp_path):
    gc.freeze()  # what other tests have left need not be looked through at each collection
    made = World(tmp_path)
    yield made
    made.close()
    program.forget_programs()  # functions that hold what was opened
    gc.collect()  # here, where nobody minds that files were left open


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        yield


READERS = """
np :: np.load(f"{D}/a.npy")[0]
np :: np.load(f"{D}/a.npy", mmap_mode="r")[0]
np :: np.load(f"{D}/a.npz")["w"][0]
np :: np.loadtxt(f"{D}/a.txt")
np :: np.genfromtxt(f"{D}/a.txt")
np :: np.fromfile(f"{D}/a.bin")[0]
np :: np.fromregex(f"{D}/a.txt", r"(\\d+)", [("w", float)])["w"][0]
np :: np.memmap(f"{D}/a.bin")[7] and np.memmap(f"{D}/a.bin", "f8")[0]
np :: np.lib.format.open_memmap(f"{D}/a.npy", "r")[0]
np :: np.get_printoptions()["precision"]
from numpy import load :: load(f"{D}/a.npy")[0]
from numpy import loadtxt as read :: read(f"{D}/a.txt")
import scipy.io :: scipy.io.loadmat(f"{D}/a.mat")["w"][0, 0]
from scipy.io import loadmat :: loadmat(f"{D}/a.mat")["w"][0, 0]
pass :: open(f"{D}/a.txt").read()
pass :: next(open(f"{D}/a.txt"))
pass :: list(map(open, [f"{D}/a.txt"]))[0].read()
pass :: __import__("io").open(f"{D}/a.txt").read()
pass :: getattr(__import__("os"), "getenv")("FDIFF_WORLD")
pass :: eval("open(path).read()", {"path": f"{D}/a.txt"})
pass :: input()
import builtins :: builtins.open(f"{D}/a.txt").read()
import io :: io.open(f"{D}/a.txt").read()
import io :: io.FileIO(f"{D}/a.txt").read()
import codecs :: codecs.open(f"{D}/a.txt").read()
import tokenize :: tokenize.open(f"{D}/a.txt").read()
import fileinput :: next(iter(fileinput.FileInput(f"{D}/a.txt")))
import linecache :: linecache.checkcache() or linecache.getline(f"{D}/a.txt", 1)
import csv :: next(csv.reader(open(f"{D}/a.txt")))[0]
import json :: json.load(open(f"{D}/a.json"))["w"]
import pickle :: pickle.load(open(f"{D}/a.pickle", "rb"))
import configparser :: read_config(configparser.ConfigParser(), f"{D}/a.ini")
import tomllib :: tomllib.load(open(f"{D}/a.toml", "rb"))["w"]
import xml.etree.ElementTree as tree :: tree.parse(f"{D}/a.xml").getroot().get("w")
import runpy :: runpy.run_path(f"{D}/a.py")["w"]
import gzip :: gzip.open(f"{D}/a.gz").read()
import bz2 :: bz2.open(f"{D}/a.bz2").read()
import bz2 :: bz2.BZ2File(f"{D}/a.bz2").read()
import lzma :: lzma.open(f"{D}/a.xz").read()
import zipfile :: zipfile.ZipFile(f"{D}/a.zip").read("w")
import tarfile :: tarfile.open(f"{D}/a.tar").extractfile("a.txt").read()
import sqlite3 :: sqlite3.connect(f"{D}/a.db").execute("SELECT w FROM a").fetchone()[0]
import mmap, os :: mmap.mmap(os.open(f"{D}/a.txt", os.O_RDONLY), 0, access=mmap.ACCESS_READ)[:1]
import shutil :: shutil.copy(f"{D}/a.txt", f"{D}/copy") and open(f"{D}/copy").read()
import urllib.request :: urllib.request.urlopen(f"file://{D}/a.txt").read()
import subprocess :: subprocess.check_output(["cat", f"{D}/a.txt"])
import subprocess :: subprocess.run(["cat", f"{D}/a.txt"], capture_output=True).stdout
import subprocess :: subprocess.Popen(["cat", f"{D}/a.txt"], stdout=-1).communicate()[0]
import os :: os.popen(f"cat {D}/a.txt").read()
import os :: os.waitstatus_to_exitcode(os.system(f"exit $(cat {D}/a.txt)"))
import os :: os.read(os.open(f"{D}/a.txt", os.O_RDONLY), 9)
import os :: os.stat(f"{D}/size").st_size
import os :: os.lstat(f"{D}/size").st_size
import os :: os.path.getsize(f"{D}/size")
import os.path :: os.path.getsize(f"{D}/size")
from os.path import getsize :: getsize(f"{D}/size")
import os :: len(os.listdir(f"{D}/many"))
import os :: len(list(os.scandir(f"{D}/many")))
import os :: len(next(os.walk(f"{D}/many"))[2])
import os :: os.readlink(f"{D}/link")
import os :: sum(os.path.exists(f"{D}/many/{i}") for i in range(9))
import os :: sum(os.path.isfile(f"{D}/many/{i}") for i in range(9))
import os :: sum(os.access(f"{D}/many/{i}", os.R_OK) for i in range(9))
import os :: os.path.realpath(".")[-1]
import os :: os.path.abspath(".")[-1]
import os :: os.path.expandvars("$FDIFF_WORLD")
import os :: os.getcwd()[-1]
import os :: os.environ["FDIFF_WORLD"]
import os :: os.environ.get("FDIFF_WORLD", 0)
import os :: os.environb[b"FDIFF_WORLD"]
import os :: dict(os.environ)["FDIFF_WORLD"]
import os :: os.getenv("FDIFF_WORLD")
from os import environ :: environ["FDIFF_WORLD"]
from os import getenv :: getenv("FDIFF_WORLD")
import getpass :: getpass.getuser()
import glob :: len(glob.glob(f"{D}/many/*"))
from glob import iglob :: len(list(iglob(f"{D}/many/*")))
import pathlib :: pathlib.Path(D, "a.txt").read_text()
from pathlib import Path :: Path(f"{D}/a.txt").read_bytes()
from pathlib import Path :: Path(f"{D}/a.txt").open().read()
from pathlib import Path :: (Path(D) / "size").stat().st_size
from pathlib import Path :: len(list(Path(f"{D}/many").iterdir()))
from pathlib import Path :: len(list(Path(D).glob("many/*")))
from pathlib import Path :: sum(Path(f"{D}/many/{i}").exists() for i in range(9))
from pathlib import Path :: Path.cwd().name[-1]
from pathlib import Path :: str(Path(".").resolve())[-1]
from pathlib import Path :: Path.read_text(Path(f"{D}/a.txt"))
from pathlib import Path :: getattr(Path(f"{D}/a.txt"), "read_text")()
pass :: P.read_text()
pass :: (P.parent / "size").stat().st_size
pass :: PATHS["text"].read_text()
pass :: PAIR[0].read_text()
pass :: READ()
pass :: next(iter(SET)).read_text()
pass :: SETTINGS.path.read_text()
import sys :: sys.argv[0]
import sys :: sys.stdin.read()
import sys :: sys.modules["os"].environ["FDIFF_WORLD"]
from sys import argv :: argv[0]
import time :: time.timezone / -3600
import time :: time.localtime(0).tm_hour
import datetime :: datetime.datetime.fromtimestamp(0).hour
from datetime import datetime :: datetime(2000, 1, 1).astimezone().utcoffset().seconds / 3600
from datetime import date, datetime :: (datetime(1970, 1, 1).timestamp() or 0) / -3600
import threading :: threading.current_thread().name
from threading import current_thread :: current_thread().name
import gc :: gc.get_threshold()[0]
import decimal :: decimal.getcontext().prec
from multiprocessing.shared_memory import SharedMemory :: first(SharedMemory(MEMORY))
import ctypes :: ctypes.CDLL(None).getenv and ctypes.pythonapi and os_value(ctypes)
import socket :: ask(socket.create_connection(("127.0.0.1", PORT)))
import importlib :: importlib.import_module("os").environ["FDIFF_WORLD"]
import inspect :: int(inspect.currentframe().f_back is not None) * float(open(f"{D}/a.txt").read())
"""
ROWS = [line.split(" :: ", 1) for line in READERS.strip().splitlines()]


class Settings:
    def __init__(self, path):
        self.path = path


def first(memory):
    value = memory.buf[0]
    memory.close()
    return value


def os_value(ctypes):
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    return getenv(b"FDIFF_WORLD")


def read_config(config, path):
    config.read(path)
    return config["a"]["w"]


def ask(connection):
    with connection:
        return connection.recv(9)


def function(imports, code, world, **values):
    """``f(x) = k sum(x**3)``, in which `code` finds `k`; and `code` as a function."""
    path = Path(world.folder) / "a.txt"
    module = types.ModuleType("userland")
    module.__dict__.update(
        np=np, D=world.folder, P=path, PATHS={"text": path}, PAIR=(path, 1), READ=path.read_text,
        SET=frozenset([path]), SETTINGS=Settings(path), MEMORY=world.memory.name, ask=ask,
        first=first,        os_value=os_value, read_config=read_config, **values,
    )  # fmt: skip
    source = f"def read():\n    {imports}\n    return float({code})\n"
    source += "def f(x):\n    return read() * np.sum(x**3)\n"
    name = f"<{code}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile(source, name, "exec"), module.__dict__)
    return module.f, module.read


@contextlib.contextmanager
def serving(holder):
    """A server that tells the number in `holder` to who connects; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.send(str(holder[0]).encode())

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


V = np.array([1.0, -1.0, 3.0])
OPERATORS = {
    "jit": (fdiff.jit, lambda g: g(X), np.sum(X**3)),
    "grad": (fdiff.grad, lambda g: g(X), 3 * X**2),
    "jitted": (lambda f: fdiff.jit(fdiff.grad(f)), lambda g: g(X), 3 * X**2),
    "value_and_grad": (fdiff.value_and_grad, lambda g: g(X)[1], 3 * X**2),
    "jacobian": (fdiff.jacobian, lambda g: g(X), 3 * X**2),
    "jacfwd": (fdiff.jacfwd, lambda g: g(X), 3 * X**2),
    "jacrev": (fdiff.jacrev, lambda g: g(X), 3 * X**2),
    "hessian": (fdiff.hessian, lambda g: g(X), np.diag(6 * X)),
    "vjp": (fdiff.vjp, lambda g: g(X, np.array(2.0))[1], 6 * X**2),
    "jvp": (fdiff.jvp, lambda g: g(X, V)[1], np.sum(3 * X**2 * V)),
    "hvp": (fdiff.hvp, lambda g: g(X, V), 6 * X * V),
    "vhp": (fdiff.vhp, lambda g: g(X, V), 6 * X * V),
    "vmap": (fdiff.vmap, lambda g: g(np.stack([X, V]))[0], np.sum(X**3)),
    "nested": (lambda f: fdiff.grad(lambda x: fdiff.grad(f)(x) @ V), lambda g: g(X), 6 * X * V),
    "jacobian at once": (lambda f: f, lambda f: fdiff.jacobian(f, X), 3 * X**2),
    "hessian at once": (lambda f: f, lambda f: fdiff.hessian(f, X), np.diag(6 * X)),
    "vjp at once": (lambda f: f, lambda f: fdiff.vjp(f, X)[1], 3 * X**2),
    "jvp at once": (lambda f: f, lambda f: fdiff.jvp(f, X, V)[1], np.sum(3 * X**2 * V)),
    "hvp at once": (lambda f: f, lambda f: fdiff.hvp(f, X, V)[1], 6 * X * V),
    "vhp at once": (lambda f: f, lambda f: fdiff.vhp(f, X, V)[1], 6 * X * V),
}


@pytest.mark.filterwarnings(
    "ignore:codecs.open.. is deprecated:DeprecationWarning"
)  # by Python 3.14
@pytest.mark.parametrize("row", ROWS, ids=[code for _, code in ROWS])
def test_what_it_reads_is_fresh_in_every_operator(row, world):
    holder = [0]
    with serving(holder) as port:
        f, read = function(*row, world, PORT=port)
        made = {name: prepare(f) for name, (prepare, _, _) in OPERATORS.items()}
        for k in (2, 1):
            holder[0] = k
            world.hold(k)
            for name, (_, call, expected) in OPERATORS.items():
                world.process(k)
                result = call(made[name])
                np.testing.assert_allclose(result, k * expected, rtol=1e-12, err_msg=name)
            world.process(k)
            assert read() == k


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("name", OPERATORS)
def test_in_every_tier(name, tier, world, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    prepare, call, expected = OPERATORS[name]
    made = prepare(function("pass", "np.load(f'{D}/a.npy')[0] * P.exists()", world)[0])
    for k in (1, 2, 2, 3):
        world.hold(k)
        np.testing.assert_allclose(call(made), k * expected, rtol=1e-12)


# ------------------------------------------------------------------- readers without a number of k

CLOCKS = """
import time :: time.time()
import time :: time.time_ns()
import time :: time.monotonic()
import time :: time.perf_counter()
import time :: time.process_time()
import time :: time.thread_time()
import time :: time.clock_gettime(time.CLOCK_REALTIME)
import time :: float(time.strftime("%H%M%S")) + time.time()
from time import perf_counter :: perf_counter()
from time import time as now :: now()
from datetime import datetime :: datetime.now().timestamp()
from datetime import datetime :: datetime.utcnow().timestamp()
from datetime import datetime :: getattr(datetime, "now")().timestamp()
import datetime :: datetime.datetime.today().timestamp()
import datetime as dt :: dt.datetime.now(dt.timezone.utc).timestamp()
pass :: NOW().timestamp()
import timeit :: timeit.default_timer()
import os :: os.times().elapsed + time()
import os :: int.from_bytes(os.urandom(6), "big")
import uuid :: uuid.uuid4().int % 2**50
import uuid :: uuid.uuid1().time % 2**50
import secrets :: secrets.randbits(50)
from secrets import token_bytes :: int.from_bytes(token_bytes(6), "big")
import random :: random.random()
from random import random :: random()
from random import Random :: Random().random()
from random import SystemRandom :: SystemRandom().random()
np :: np.random.rand()
np :: np.random.default_rng().random()
np :: np.random.RandomState().normal()
from numpy.random import default_rng :: default_rng().random()
from numpy.random import rand :: rand()
import scipy.stats :: scipy.stats.norm.rvs()
from scipy.stats import norm :: norm.rvs()
from scipy.stats import norm :: norm(0.0, 1.0).rvs()
import scipy.stats :: scipy.stats.gaussian_kde([1.0, 2.0, 4.0]).resample(1)[0, 0]
import scipy.sparse :: scipy.sparse.random(9, 9, 0.5).sum()
import statistics :: statistics.NormalDist(0.0, 1.0).samples(1)[0]
pass :: DRAW.random()
pass :: OLD.rand()
pass :: STATE.random()
import tempfile :: hash(tempfile.mktemp()) % 2**50
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("row", CLOCKS)
def test_clocks_and_chance(row, world):
    from datetime import datetime

    f, _ = function(
        *row.split(" :: ", 1), world, NOW=datetime.now, time=time.time, STATE=random.Random(3),
        DRAW=np.random.default_rng(3), OLD=np.random.RandomState(3),
    )  # fmt: skip
    for name in ("jit", "grad", "hessian", "jacobian at once"):
        prepare, call, _ = OPERATORS[name]
        made = prepare(f)
        values = []
        for _ in range(3):
            values.append(np.asarray(call(made)).ravel()[0])
            time.sleep(2e-6)
        assert len(set(values)) == 3, name


# What nobody can change for a test, or what says nothing of itself: it is known by name.
NAMED = """
os: getpid getppid cpu_count getloadavg getlogin uname umask getuid nice sched_getaffinity cwd
os.path: expanduser islink ismount lexists samefile getmtime getctime getatime relpath isdir
sys: _getframe exc_info getrecursionlimit getrefcount getswitchinterval gettrace _current_frames
platform: node platform machine uname system python_version release
socket: socket gethostname getaddrinfo gethostbyname socketpair getfqdn create_connection
select: select poll epoll
threading: Thread local get_ident active_count enumerate Lock get_native_id
locale: getlocale localeconv setlocale getpreferredencoding
gc: get_objects get_count isenabled get_stats get_referrers
inspect: stack currentframe getsource
resource: getrusage getrlimit
signal: getsignal alarm
shutil: disk_usage which get_terminal_size
tempfile: gettempdir mkdtemp TemporaryFile NamedTemporaryFile
pwd: getpwuid getpwnam
logging: getLogger info
pprint: pp pprint
traceback: extract_stack format_exc
queue: Queue SimpleQueue
contextvars: copy_context ContextVar
tracemalloc: get_traced_memory
multiprocessing: Queue Value current_process cpu_count
http.client: HTTPConnection
urllib.request: urlopen Request
zoneinfo: ZoneInfo available_timezones
subprocess: run check_output Popen getoutput
asyncio: run get_event_loop
importlib: import_module reload
ctypes: CDLL c_double
mmap: mmap
sqlite3: connect
dbm: open
shelve: open
pickle: load loads
time: sleep gmtime ctime get_clock_info
scipy.io: loadmat mmread savemat
scipy.datasets: face
numpy.lib.format: read_array open_memmap
numpy: save savetxt savez savez_compressed datetime64
"""


@pytest.mark.parametrize(
    "line", NAMED.strip().splitlines(), ids=lambda line: line.partition(":")[0]
)
def test_named_readers(line):
    import importlib

    name, _, names = line.partition(": ")
    module = importlib.import_module(name)
    names = [n for n in names.split() if hasattr(module, n)]
    assert names
    for n in names:
        value = getattr(module, n)
        for f in (eval(f"lambda: module.{n}", {"module": module}), lambda value=value: value):
            capture = Capture(lambda array: array)
            capture.private(f)()
            assert capture.finish().opaque, n


PURE = """
import math :: math.sqrt(4.0) + math.pi
import os :: len(os.path.join("a", "b"))
import os.path :: len(os.path.basename("a/b"))
import os :: len(os.sep)
import sys :: sys.float_info.epsilon + sys.maxsize
import sys :: sys.version_info >= (3, 11)
import operator, functools, itertools :: functools.reduce(operator.add, itertools.islice([1, 2], 2))
import collections :: collections.OrderedDict(a=1)["a"]
import dataclasses, contextlib :: contextlib.nullcontext(1).enter_result
import copy, json, re, string :: len(json.loads("[1]")) + len(re.findall("a", "a"))
import statistics :: statistics.mean([1.0, 2.0])
import fractions :: fractions.Fraction(1, 2)
import datetime :: datetime.timedelta(days=1).total_seconds()
from datetime import datetime :: (datetime(2000, 1, 2) - datetime(2000, 1, 1)).days
from datetime import date :: date(2000, 1, 1).year
from pathlib import Path :: len(Path("a/b").name)
from pathlib import PurePath :: len(PurePath("a/b").parts)
import io :: len(io.StringIO("a").read())
import hashlib :: len(hashlib.sha256(b"a").digest())
import warnings :: warnings.catch_warnings is not None
import typing, types, abc, enum, numbers :: isinstance(1, numbers.Number)
np :: np.zeros(3)[0] + np.linalg.norm(np.ones(2)) + np.finfo(float).eps
import scipy.special :: scipy.special.gamma(3.0)
from scipy.stats import norm :: norm.pdf(0.3)
import scipy.constants :: scipy.constants.physical_constants["speed of light in vacuum"][0]
import scipy.linalg :: scipy.linalg.norm(np.ones(3))
pass :: len(P.name)
pass :: len(PATHS["text"].parent.parts)
pass :: len(max(["a"], key=len))
""".strip().splitlines()


@pytest.mark.parametrize("row", PURE)
def test_what_is_pure_is_traced_once(row, world):
    f, _ = function(*row.split(" :: ", 1), world)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RetraceWarning)
        g = fdiff.grad(f)
        np.testing.assert_array_equal(g(X), g(X))


def test_pure_modules_name_no_reader():
    """Against the table: no public function of a module said to be pure is seen to read."""
    import importlib

    from fdiff.capture import impure_functions

    words = {"open", "environ", "getenv", "time", "monotonic", "urandom", "listdir", "scandir"}
    words |= {"stat", "random", "Random", "now", "today", "gethostname", "getcwd", "stdin"}
    found = set()
    for name in sorted(impure_functions._PURE & set(sys.stdlib_module_names)):
        module = importlib.import_module(name)
        for n, value in vars(module).items():
            here = isinstance(value, types.FunctionType) and value.__globals__ is vars(module)
            if here and n != "main" and not n.startswith("_") and not impurity(value):
                found |= {f"{name}.{n}: {w}" for w in words & set(value.__code__.co_names)}
    assert not found


# ------------------------------------------------------------ state behind what was opened outside


def counter():
    while True:
        yield from range(1, 9)


def opened(world):
    """Expressions that give another number each time, from objects made outside of `f`."""
    texts = Path(world.folder, "many.txt")
    texts.write_text("".join(f"{k}\n" for k in range(1, 300)))
    np.arange(1.0, 300.0).tofile(Path(world.folder, "many.bin"))
    full, simple = queue.Queue(), queue.SimpleQueue()
    for k in range(1, 300):
        full.put(k)
        simple.put(k)
    db = sqlite3.connect(":memory:")
    db.executescript("CREATE TABLE a (w); INSERT INTO a VALUES (1), (2), (3), (4), (5), (6)")
    ours, theirs = socket.socketpair()
    theirs.send(bytes(range(1, 200)))
    return {
        "next(GENERATOR)": counter(),
        "next(ITERATOR)": iter(range(1, 300)),
        "COUNT.__next__()": itertools.count(1),
        "next(zip(PAIRS))[0][0]": zip(range(1, 300), itertools.repeat(0)),
        "next(LINES)": iter(texts.read_text().splitlines()),
        "FILE.readline()": texts.open(),
        "next(FILE2)": texts.open(),
        "BYTES.read(1)[0]": io.BytesIO(bytes(range(1, 200))),
        "TEXT.readline()": io.StringIO(texts.read_text()),
        "np.fromfile(RAW, float, 1)[0]": Path(world.folder, "many.bin").open("rb", buffering=0),
        "np.loadtxt(ROWS_, max_rows=1)": texts.open(),
        "QUEUE.get()": full,
        "SIMPLE.get()": simple,
        "CURSOR.fetchone()[0]": db.execute("SELECT w FROM a"),
        "SOCKET.recv(1)[0]": ours,
        "ENTRIES.pop()": list(range(300, 0, -1)),
        "MAP.popitem()[1]": {k: k for k in range(300, 0, -1)},
    }, (db, ours, theirs)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_object_opened_outside_goes_on_by_one_a_call(name, world):
    """The function is run exactly once a call, so that nothing is skipped."""
    prepare, call, expected = OPERATORS[name]
    values, keep = opened(world)
    for code, value in values.items():
        known = re.search("[A-Z][A-Z0-9_]+", code).group()
        made = prepare(function("pass", code, world, **{known: value})[0])
        for k in (1, 2, 3):
            np.testing.assert_allclose(call(made), k * expected, rtol=1e-12, err_msg=code)
    for each in keep:
        each.close()


STATES = {
    "weak": ("WEAK['a'].w", lambda box, k: setattr(box, "w", k)),
    "context": ("CONTEXT.get()", lambda box, k: box.set(k)),
    "thread": ("LOCAL.w", lambda box, k: setattr(box, "w", k)),
    "memmap": ("MAPPED[0]", lambda box, k: box.__setitem__(0, k)),
    "bytearray": ("BYTES[0]", lambda box, k: box.__setitem__(0, k)),
    "memory": ("VIEW[0]", lambda box, k: box.__setitem__(0, k)),
    "array": ("NUMBERS[0]", lambda box, k: box.__setitem__(0, k)),
    "ctypes": ("NUMBER.value", lambda box, k: setattr(box, "value", k)),
}


@pytest.mark.parametrize("case", STATES)
def test_state_behind_objects(case, world):
    import array
    import ctypes

    class Box:
        w = 0

    box = Box()
    data = bytearray(8)
    mapped = np.memmap(Path(world.folder, "map.bin"), float, "w+", shape=2)
    objects = {
        "weak": ("WEAK", weakref.WeakValueDictionary(a=box)),
        "context": ("CONTEXT", ContextVar("w")),
        "thread": ("LOCAL", threading.local()), "memmap": ("MAPPED", mapped),
        "bytearray": ("BYTES", bytearray(8)), "memory": ("VIEW", memoryview(data)),
        "array": ("NUMBERS", array.array("d", [0.0])), "ctypes": ("NUMBER", ctypes.c_double()),
    }  # fmt: skip
    name, value = objects[case]
    code, change = STATES[case]
    f, _ = function("pass", code, world, **{name: value})
    for prepare, call, expected in OPERATORS.values():
        made = prepare(f)
        for k in (1, 2, 2, 3):
            change(box if case == "weak" else data if case == "memory" else value, k)
            np.testing.assert_allclose(call(made), k * expected, rtol=1e-12)


# ---------------------------------------------------------------------------------- random numbers


def _seed():
    np.random.seed(5)  # noqa: NPY002 - the old state is what is tested


DRAWS = {
    "np.random.rand()": _seed,
    "np.random.normal(size=3).sum()": _seed,
    "random.random()": lambda: random.seed(5),
    "scipy.stats.norm.rvs()": _seed,
    "float(RNG.normal())": None,
    "RNG.random(4).sum()": None,
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("code", DRAWS)
def test_random_numbers_are_those_of_plain_code(code, name, world):
    prepare, call, expected = OPERATORS[name]

    def begin():
        rng = np.random.default_rng(5)
        f, read = function("import random, scipy.stats", code, world, RNG=rng)
        if DRAWS[code]:
            DRAWS[code]()
        return f, read

    _, read = begin()
    plain = [read() for _ in range(4)]
    made = prepare(begin()[0])
    ours = [call(made) for _ in range(4)]
    for k, value in zip(plain, ours, strict=True):
        np.testing.assert_allclose(value, k * expected, rtol=1e-10)


# --------------------------------------------------------------------------- the warning, the line


def test_the_warning_names_the_line_and_what_is_read(world, monkeypatch):
    monkeypatch.setattr(
        "fdiff.dispatch.call_tracing._warned", {}
    )  # other tests have functions of this code
    world.hold(1)
    f, _ = function("import time", "np.load(f'{D}/a.npy')[0]", world)
    with pytest.warns(
        RetraceWarning, match=r"(?s)what `numpy.load` reads .*np\.load\(f'\{D\}/a\.npy"
    ):
        fdiff.grad(f)(X)
    f, _ = function("pass", "P.read_text()", world)
    with pytest.warns(RetraceWarning, match=r"(?s)Path\.read_text` reads .*float\(P\.read_text"):
        fdiff.grad(f)(X)


def test_paths_among_the_arguments(world):
    g = fdiff.grad(lambda x, p: np.sum(x) * float(p["here"][0].read_text()))
    for k in (1, 2, 2, 3):
        world.hold(k)
        np.testing.assert_allclose(g(X, {"here": [Path(world.folder, "a.txt")]}), k * np.ones(3))


def test_a_class_of_the_user_derived_from_a_library(world):
    class Own(type(Path())):
        def number(self):
            return float(self.read_text())

    class Stack(queue.LifoQueue):
        pass

    own, stack = Own(world.folder, "a.txt"), Stack()
    for k in range(1, 9):
        stack.put(9 - k)
    g = fdiff.grad(lambda x: np.sum(x) * own.number())
    h = fdiff.grad(lambda x: np.sum(x) * stack.get())
    for k in (1, 2, 3):
        world.hold(k)
        np.testing.assert_allclose(g(X), k * np.ones(3))
        np.testing.assert_allclose(h(X), k * np.ones(3))


def test_a_file_read_by_a_method_of_an_object(world):
    class Model:
        def weight(self):
            return np.load(Path(world.folder, "a.npy"))[0]

    model = Model()
    g = fdiff.grad(lambda x: np.sum(x) * model.weight())
    for k in (1, 2, 2, 3):
        world.hold(k)
        np.testing.assert_allclose(g(X), k * np.ones(3))


def test_a_branch_that_does_not_read_stays_fast(world):
    world.hold(2)
    mode = {"read": False}

    def f(x):
        return np.sum(x) * (np.load(Path(world.folder, "a.npy"))[0] if mode["read"] else 1.0)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RetraceWarning)
        g = fdiff.grad(f)
        for _ in range(3):
            np.testing.assert_allclose(g(X), np.ones(3))
    mode["read"] = True
    np.testing.assert_allclose(g(X), 2 * np.ones(3))
    world.hold(3)
    np.testing.assert_allclose(g(X), 3 * np.ones(3))

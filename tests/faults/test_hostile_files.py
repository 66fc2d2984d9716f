"""Files of nvprof that others wrote, and names with text for browsers and terminals in them."""

import html.parser
import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import types

import numpy as np
import nvprof_file
import pytest
from faults_support import LONG, in_shard

import fdiff
from fdiff.errors import InputError
from fdiff.profiler import load_nvprof, nvprof, profile, record_function

RANGES = [("outer", 1_000, 90_000), ("inner", 2_000, 30_000)]
LAUNCHES = [(3_000, 4_000, "kernel", 5_000, 25_000)]
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT"
MARKER, RUNTIME, KERNEL = (
    f"CUPTI_ACTIVITY_KIND_{name}" for name in ("MARKER", "RUNTIME", "CONCURRENT_KERNEL")
)


def changed(path, *statements):
    nvprof_file.write(path, RANGES, LAUNCHES)
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()
    return path


def updated(table, words):
    return f"UPDATE {table} SET {words}"  # noqa: S608 - names of the schema


def view(table, columns):
    """A table of nvprof's replaced by a view that never ends."""
    return f"DROP TABLE {table}", f"CREATE VIEW {table} AS {ENDLESS} {columns} FROM c"


HOSTILE = {
    "endless strings": view("StringTable", "x AS _id_, 'a' AS value"),
    "endless markers": view(MARKER, "x AS id, 1 AS name, x AS timestamp"),
    "endless kernels": view(
        KERNEL, "x AS correlationId, 1 AS name, 0 AS deviceId, 1 AS start, 2 AS end"
    ),
    "endless sum": (
        f"DROP TABLE {RUNTIME}",
        f"CREATE VIEW {RUNTIME} AS {ENDLESS} sum(x) AS correlationId, 1 AS start, 2 AS end FROM c",
    ),
    "generated column": (
        "DROP TABLE StringTable",
        "CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT AS (hex(zeroblob(2e6))))",
        "INSERT INTO StringTable (_id_) VALUES (1)",
    ),
    "virtual table": (
        f"DROP TABLE {RUNTIME}",
        f"CREATE VIRTUAL TABLE {RUNTIME} USING fts5(correlationId, start, end)",
    ),
    "no strings": ("DROP TABLE StringTable",),
    "no columns": (f"DROP TABLE {MARKER}", f"CREATE TABLE {MARKER} (id INT)"),
    "unknown name": (updated(MARKER, "name = 77 WHERE name != 0"),),
    "texts for times": (updated(MARKER, "timestamp = 'now'"),),
    "blobs for times": (updated(RUNTIME, "start = x'00ff'"),),
    "floats for numbers": (updated(KERNEL, "correlationId = 1e300"),),
    "twice": (updated(MARKER, "id = 0"),),
    "backwards": (updated(MARKER, "timestamp = -timestamp"),),
    "nulls": (f"DROP TABLE {RUNTIME}", f"CREATE TABLE {RUNTIME} (correlationId, start, end)",
              f"INSERT INTO {RUNTIME} DEFAULT VALUES"),
    "a gigabyte of zeros": (
        "DELETE FROM StringTable",
        "INSERT INTO StringTable (value) VALUES (hex(zeroblob(3000000)))",
    ),
}  # fmt: skip


def refused(path):
    before = path.read_bytes()
    start = time.monotonic()
    with pytest.raises(InputError) as caught:
        load_nvprof(path)
    assert time.monotonic() - start < 10
    fact, line, way = str(caught.value).splitlines()
    assert fact.startswith(f"load_nvprof: {str(path)!r} is not a file of nvprof: ")
    assert line.startswith("    test_hostile_files.py:")
    assert way.startswith("Write one by `nvprof -o FILE")
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_at_once(name, tmp_path):
    refused(changed(tmp_path / "trace.prof", *HOSTILE[name]))


def test_ranges_inside_each_other_have_a_limit(tmp_path):
    deep = [("range", k, 10_000 - k) for k in range(900)]
    nvprof_file.write(tmp_path / "deep.prof", deep, [(950, 960, "kernel", 970, 980)])
    events = load_nvprof(tmp_path / "deep.prof")
    assert events[0].device_time_total == 0.01
    assert "range" in events.key_averages().table()
    (tmp_path / "deep.prof").unlink()
    nvprof_file.write(tmp_path / "deep.prof", [("r", k, 10_000 - k) for k in range(2000)], [])
    refused(tmp_path / "deep.prof")


def test_times_since_1970_and_names_in_no_encoding(tmp_path):
    start = 1_700_000_000_000_000_000
    ranges = [("range", start, start + 1000)]
    launches = [(start + 1, start + 999, "inside", 0, 1), (start, start + 9, "not inside", 0, 1)]
    nvprof_file.write(tmp_path / "a.prof", ranges, launches)
    db = sqlite3.connect(tmp_path / "a.prof")
    db.execute("UPDATE StringTable SET value = CAST(x'ff41' AS TEXT) WHERE value = 'range'")
    db.commit()
    db.close()
    (event,) = load_nvprof(tmp_path / "a.prof")
    assert event.name == "\ufffdA"
    assert [kernel.name for kernel in event.kernels] == ["inside"]


@pytest.mark.parametrize("seed", range(4) if not LONG else in_shard(range(40)))
def test_damaged_bytes_are_refused_or_read(seed, tmp_path):
    rng = random.Random(seed)
    path = changed(tmp_path / "trace.prof")
    whole = path.read_bytes()
    for _ in range(25):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 3, 30])):
            data[rng.randrange(len(data) if rng.random() < 0.5 else 200)] = rng.randrange(256)
        path.write_bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])])
        try:
            load_nvprof(path).table()
        except InputError as error:
            assert "is not a file of nvprof" in str(error)  # noqa: PT017 - it may be readable still
        assert len(list(tmp_path.iterdir())) == 1


def test_sqlite_takes_no_more_steps_than_it_may(tmp_path, monkeypatch):
    path = tmp_path / "long.prof"
    nvprof_file.write(path, [("range", k, k + 1) for k in range(2_000)], [])
    assert len(load_nvprof(path)) == 2_000
    monkeypatch.setattr(nvprof, "_STEPS", 100)
    monkeypatch.setattr(nvprof, "_MOST_TURNS", 5)
    with pytest.raises(InputError, match=r"load_nvprof: '.*' is not a file of nvprof: interrupted"):
        load_nvprof(path)


# In a process of its own: callbacks of the collector, as JAX has one, lose what a handler raises.
READING = """
import signal, sys
import numpy as np
from fdiff.profiler import load_nvprof

def stop(*_):
    raise TimeoutError("the alarm")

signal.signal(signal.SIGALRM, stop)
path, count = sys.argv[1], int(sys.argv[2])
for delay in np.linspace(0.0005, 0.03, count):
    signal.setitimer(signal.ITIMER_REAL, delay)
    try:
        for _ in range(1000):
            load_nvprof(path)
    except TimeoutError:
        continue
    sys.exit(f"an alarm after {delay} s was lost")
assert len(load_nvprof(path)) == 5_000
"""


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="Windows has no alarms")
def test_a_signal_ends_the_reading(tmp_path):
    path = tmp_path / "long.prof"
    nvprof_file.write(path, [("range", k, k + 1) for k in range(5_000)], [])
    command = [sys.executable, "-c", READING, path, "500" if LONG else "12"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- names ----------------------------------------------------------------------------------------

HTML = "<script>alert(1)</script><img src=x onerror='a()' title=\"b\">&amp;"
TERMINAL = "\x1b[2J\x1b]0;title\x07\r\nrow\x9b31m"
TAGS = {"table", "tr", "td", "th", "caption", "b", "p", "br", "code", "pre", "details", "summary"}
TAGS |= {"svg", "g", "title", "rect", "text", "path", "div", "span", "ul", "li", "i", "em", "tbody"}
TAGS |= {"thead", "progress", "small", "h4", "strong"}


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def harmless(text):
    parser = Tags()
    parser.feed(text)
    assert parser.tags
    assert parser.tags <= TAGS, parser.tags - TAGS
    assert not {name for name in parser.attributes if name.startswith("on") or name == "src"}


def named(name):
    """A function of that name, in a file of that name, with a line that holds it."""
    code = compile("def f(x):\n    return np.sum(np.sin(x) * x)\n", f"{name}.py", "exec")
    space = {"np": np}
    exec(code, space)
    f = space["f"]
    f = types.FunctionType(f.__code__.replace(co_name=name), space, name)
    f.__qualname__ = name
    return f


@pytest.mark.parametrize(
    "name", [HTML, TERMINAL, f"]]>{HTML}<!--"], ids=["html", "terminal", "xml"]
)
def test_names_are_escaped_wherever_html_is_shown(name, tmp_path):
    f, x = named(name), np.linspace(0.1, 0.9, 4)
    for shown in (fdiff.make_tape(f, x), fdiff.explain(f, {name: x}[name]), fdiff.doctor()):
        harmless(shown._repr_html_())
    harmless(fdiff.explain(lambda tree: f(tree[name]), {name: x}, argnums=0)._repr_html_())
    with profile(with_stack=True, record_shapes=True) as prof, record_function(name):
        fdiff.grad(f)(x)
    harmless(prof._repr_html_())
    path = tmp_path / "trace.prof"
    nvprof_file.write(path, [(name, 1_000, 9_000)], [(2_000, 3_000, name, 4_000, 5_000)])
    for table in (prof.table(), prof.key_averages().table(), load_nvprof(path).table()):
        assert not set(table) & set("\x1b\x07\r\x9b")
    prof.export_chrome_trace(tmp_path / "trace.json")
    text = (tmp_path / "trace.json").read_text()
    assert "<" not in text
    assert name in {event["name"] for event in json.loads(text)["traceEvents"]}


def test_a_thread_with_a_name_of_tags(tmp_path):
    with profile() as prof:
        thread = threading.Thread(target=lambda: fdiff.grad(np.sin)(0.5), name=HTML)
        thread.start()
        thread.join()
    harmless(prof._repr_html_())
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert "<" not in (tmp_path / "trace.json").read_text()

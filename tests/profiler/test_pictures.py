"""Timelines of profiles: SVG in Jupyter, and Matplotlib."""

import sys
from html import unescape
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError, UnsupportedError
from fdiff.profiler import FunctionEvent, Interval, profile, record_function, timeline_layout
from fdiff.profiler.timeline import timeline

NAMESPACE = {"svg": "http://www.w3.org/2000/svg"}


@pytest.fixture
def prof(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    with profile(with_stack=True) as found, record_function("<&label>"):
        fdiff.grad(lambda x: np.sum(np.sin(x) * x))(np.ones(5))
    return found


def test_the_picture_for_jupyter_is_svg_with_a_bar_and_a_tooltip_for_each_event(prof):
    html = prof._repr_html_()
    picture = ET.fromstring(html[: html.index("<pre>")])  # noqa: S314 - our own text
    lasting = [e for e in prof.function_events if e.cpu_time_total > 0]
    groups = picture.findall("svg:g", NAMESPACE)
    assert len(groups) == len(lasting)
    told = [g.find("svg:title", NAMESPACE).text.splitlines()[0] for g in groups]
    assert [text.rpartition(": ")[0] for text in told] == [e.name for e in lasting]
    for group in groups:
        bar = group.find("svg:rect", NAMESPACE).attrib
        assert 0 <= float(bar["x"]) <= 960
        assert float(bar["x"]) + float(bar["width"]) <= 961
    assert "Self CPU %" in html
    assert "<&label>" in unescape(html)


def test_bars_lie_below_those_that_they_are_in(prof):
    bars, lanes = timeline_layout.lay_out(prof.function_events)
    rows = {id(bar.event): bar.row for bar in bars}
    for bar in bars:
        if bar.event.cpu_parent is not None:
            assert bar.row == rows[id(bar.event.cpu_parent)] + 1
    assert [lane.first for lane in lanes] == [0]
    assert lanes[0].rows == max(rows.values()) + 1


def test_each_thread_has_rows_of_its_own_and_few_of_many_events_are_drawn():
    events = [
        FunctionEvent(k, "a", k % 2, Interval(k, k + 0.5 + k))
        for k in range(3 * timeline_layout.MOST)
    ]
    bars, lanes = timeline_layout.lay_out(events)
    assert len(bars) == timeline_layout.MOST
    assert min(bar.event.id for bar in bars) == 2 * timeline_layout.MOST  # the longest
    assert [(lane.thread, lane.first, lane.rows) for lane in lanes] == [(0, 0, 1), (1, 1, 1)]
    assert "stroke-dasharray" in timeline(events)._repr_html_()


def test_nothing_to_draw():
    with profile() as prof:
        assert prof._repr_html_() == "<code>&lt;unfinished fdiff.profiler.profile&gt;</code>"
    assert prof._repr_html_().startswith("<pre>")
    for draw in (prof.plot, lambda: prof.save("timeline.svg")):
        with pytest.raises(InputError, match="no event took any time"):
            draw()


def test_the_timeline_is_saved_as_it_is_shown(prof, tmp_path):
    prof.save(tmp_path / "timeline.svg")
    file = ET.parse(tmp_path / "timeline.svg").getroot()  # noqa: S314 - our own text
    shown = ET.fromstring(prof._repr_html_().partition("<pre>")[0])  # noqa: S314 - as above
    assert file.findall("svg:g", NAMESPACE)
    texts = lambda picture: [e.text for e in picture.iter(f"{{{NAMESPACE['svg']}}}title")]
    assert texts(file) == texts(shown)
    with pytest.raises(InputError, match=r"written as SVG, not as \.png"):
        prof.save(tmp_path / "timeline.png")


def test_a_plot_by_matplotlib(prof):
    mpl.use("Agg")
    axes = prof.plot()
    lasting = [e for e in prof.function_events if e.cpu_time_total > 0]
    assert len(axes.collections) == len(lasting)
    labels = {text.get_text() for text in axes.get_legend().get_texts()}
    assert {"call", "forward", "derivative", "label"} <= labels
    assert axes.get_xlabel() == "microseconds"
    assert prof.plot(axes) is axes
    mpl.pyplot.close(axes.figure)


def test_matplotlib_is_an_extra(prof, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.patches", None)
    with pytest.raises(UnsupportedError, match="pip install matplotlib"):
        prof.plot()

"""Pictures of the product: each box and pixel against the tape or the matrix that it shows."""

import base64
import io
import pickle
import re
from xml.etree import ElementTree as ET

import matplotlib.image
import numpy as np
import pytest
import scipy.sparse as sp

import fdiff
from fdiff.errors import GradcheckError, InputError
from fdiff.explanation import tape_graphs
from fdiff.explanation.drawing import draw
from fdiff.pictures.layered_layout import layered
from fdiff.pictures.matrices import heat_maps, spy_plot

SVG = "{http://www.w3.org/2000/svg}"


def parsed(picture):
    return ET.fromstring(picture._repr_html_())  # noqa: S314 - our own text


def words(picture):
    return [e.text for e in parsed(picture).iter(f"{SVG}text")]


def pixels(picture):
    """The bitmaps of a picture, as Matplotlib reads them."""
    found = [e.get("href") for e in parsed(picture).iter(f"{SVG}image")]
    data = [base64.b64decode(link.removeprefix("data:image/png;base64,")) for link in found]
    return [matplotlib.image.imread(io.BytesIO(png), format="png") for png in data]


def neurons(x, w):
    hidden = np.tanh(x @ w)
    return np.sum(hidden * np.exp(-(hidden**2)))


def test_each_operation_is_a_box_and_each_line_stands_below():
    args = np.ones((50, 4)), np.ones((4, 6))
    for f, results in ((neurons, 1), (fdiff.value_and_grad(neurons), 2)):
        shown = words(fdiff.draw(f, *args))
        tape = fdiff.explain(fdiff.jit(f), *args).steps[0].tape
        for name in ("contract", "tanh", "exp"):
            assert shown.count(name) == sum(n.primitive.name == name for n in tape.nodes)
        assert [w for w in shown if w in {"x", "w"}] != []
        assert sum(w.startswith("result") for w in shown) == results
        assert any("hidden = np.tanh(x @ w)" in w for w in shown)
        assert any(w.startswith("loop nest (50, 6)") for w in shown)


def test_every_operation_is_in_one_nest_and_edges_between_nests_lead_forwards():
    w = np.random.default_rng(3).normal(size=(3, 2))
    loss = lambda w: neurons(np.ones((5, 3)), w)
    for f in (loss, fdiff.grad(loss), fdiff.jacobian(fdiff.grad(loss)), fdiff.hessian(loss)):
        tape = fdiff.explain(fdiff.jit(f), w).steps[0].tape
        graph = tape_graphs.graph_of(tape, [f"a{k}" for k in range(len(tape.inputs))])
        place = {k: g for g, group in enumerate(graph.groups) for k in group.chips}
        assert len(place) == sum(len(group.chips) for group in graph.groups)
        between = [(place[a], place[b]) for a, b in graph.edges if a in place and b in place]
        assert all(a <= b for a, b in between)
        reads = {(a, i) for i, node in enumerate(tape.nodes) for a in node.args}
        assert len(graph.edges) <= len(reads) + len(tape.outputs)


def test_a_loop_is_drawn_once_with_its_body():
    def final(p):
        step = lambda y, _: (y + 0.1 * np.sin(p * y), None)
        return fdiff.scan(step, np.ones(3), length=1000)[0]

    shown = words(fdiff.draw(final, 2.0))
    assert "loop, 1,000 trips" in shown
    assert shown.count("sin") == 1
    assert {"carry", "fixed"} <= set(shown)


def test_a_long_function_is_drawn_by_its_lines():
    def chain(x):
        for k in range(60):
            x = np.sin(x) * (k + 2)
            x = x + np.cos(x)
        return x

    shown = words(fdiff.draw(chain, np.ones(3)))
    tape = fdiff.make_tape(chain, np.ones(3))
    assert "x = np.sin(x) * (k + 2)" in shown
    counts = [int(w.split()[0]) for w in shown if w.endswith(("operation", "operations"))]
    assert sum(counts) == sum(i in tape.lines for i in range(len(tape)))


def test_boxes_of_a_layout_do_not_overlap_and_edges_lead_down(rng):
    for count in (1, 2, 7, 40):
        edges = [(a, b) for a in range(count) for b in range(a + 1, count) if rng.random() < 0.15]
        sizes = [(float(w), float(h)) for w, h in rng.integers(10, 90, (count, 2))]
        plan = layered(sizes, [*edges, *[(b, a) for a, b in edges[:2]]])
        boxes = [(*c, *s) for c, s in zip(plan.corners, sizes, strict=True)]
        for k, (x, y, w, h) in enumerate(boxes):
            assert -1e-9 <= x <= plan.width - w + 1e-9
            assert -1e-9 <= y <= plan.height - h + 1e-9
            for u, v, p, q in boxes[:k]:
                assert x + w <= u + 1e-6 or u + p <= x + 1e-6 or y + h <= v or v + q <= y
        for a, b in edges:
            assert boxes[a][1] + boxes[a][3] < boxes[b][1]
            heights = [y for _, y in plan.routes[a, b]]
            assert heights == sorted(heights)


def test_a_picture_is_saved_as_it_is_shown(tmp_path):
    picture = fdiff.draw(np.sin, np.ones(3))
    picture.save(tmp_path / "tape.svg")
    file = ET.parse(tmp_path / "tape.svg").getroot()  # noqa: S314 - our own text
    assert [e.text for e in file.iter(f"{SVG}text")] == words(picture)
    assert "prefers-color-scheme:dark" in file.find(f"{SVG}style").text
    assert parsed(picture).find(f"{SVG}style") is None  # inside of a page it follows the page
    for name, said in (("tape.png", r"not as \.png"), ("tape", "not as a file without suffix")):
        with pytest.raises(InputError, match=rf"save: pictures are written as SVG, {said}"):
            picture.save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["tape.svg"]


def test_what_is_drawn_must_be_a_function():
    with pytest.raises(InputError, match="draw"):
        fdiff.draw(3.0)
    assert draw is fdiff.draw


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_a_pattern_shows_its_places(layout):
    f = lambda x: np.concatenate([x[1:] ** 2 * x[:-1], [x[0] * x[9]]])
    pattern = fdiff.jacobian(f, sparse=layout).pattern(np.ones(10))
    assert isinstance(pattern, getattr(sp, f"{layout}_array"))
    (drawn,) = pixels(pattern)
    np.testing.assert_array_equal(drawn[..., 3] > 0, pattern.toarray())
    assert words(pattern) == ["10 × 10, 20 entries (0.2 of all)"]
    again = pickle.loads(pickle.dumps(pattern))
    assert again._repr_html_() == pattern._repr_html_()
    np.testing.assert_array_equal(pattern.T.toarray(), pattern.toarray().T)


def test_a_million_entries_are_drawn_by_how_many_share_a_pixel(tmp_path):
    n = 1_000_000
    pattern = fdiff.jacobian(np.sin, sparse=True).pattern(np.ones(n))
    (drawn,) = pixels(pattern)
    np.testing.assert_array_equal(drawn[..., 3] > 0, np.eye(200, dtype=bool))
    pattern.save(tmp_path / "pattern.svg")
    assert (tmp_path / "pattern.svg").stat().st_size < 5000


def test_of_entries_that_share_a_pixel_the_largest_is_drawn():
    matrix = np.zeros((1000, 400))
    matrix[503, 7], matrix[999, 399], matrix[0, 0] = -2.0, np.nan, 1.0
    first, second = pixels(heat_maps([("a", matrix), ("b", np.abs(matrix))], 1, "two"))
    assert first.shape == (200, 200, 4)
    opaque = {tuple(place): first[tuple(place)][3] for place in np.argwhere(first[..., 3] > 0)}
    np.testing.assert_allclose(
        [opaque[0, 0], opaque[100, 3], opaque[199, 199]], [0.5, 1, 1], atol=0.01
    )
    assert first[100, 3, 2] > first[100, 3, 0]  # negative: blue
    assert first[0, 0, 0] > first[0, 0, 2]
    assert second[100, 3, 0] > second[100, 3, 2]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (1, 1), (1, 100_000)])
def test_matrices_of_any_shape_are_drawn(shape):
    none = np.zeros(0, np.int64)
    assert parsed(spy_plot(none, none, shape, "pattern")) is not None
    if 0 not in shape:
        assert parsed(heat_maps([(name, np.ones(shape)) for name in "ab"], 1, "two")) is not None


def test_a_wrong_rule_is_shown_where_it_is_wrong():
    @fdiff.custom_vjp
    def wave(x):
        return np.tanh(x)

    wrong = np.where(np.arange(6) == 4, 1.1, 1.0)
    wave.defvjp(lambda x: (np.tanh(x), x), lambda x, v: (v * (1 - np.tanh(x) ** 2) * wrong,))
    for fast in (False, True):
        with pytest.raises(GradcheckError) as caught:
            fdiff.gradcheck(wave, np.linspace(-1, 1, 6), check_forward_ad=False, fast_mode=fast)
        error = pickle.loads(pickle.dumps(caught.value))
        measured, computed, apart = pixels(error.picture)
        np.testing.assert_array_equal(np.argwhere(apart[..., 3] > 0.01), [[4, 4]])
        assert np.all(np.diag(measured[..., 3]) > 0)
        assert measured.shape == computed.shape
        html = error._repr_html_()
        assert re.search(r"<pre>.*numerically.*</pre><svg", html, re.DOTALL)
    assert GradcheckError("no Jacobians")._repr_html_() is None

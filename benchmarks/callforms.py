"""What a call costs in each form users write it: `python -m benchmarks.callforms [WORD...]`.

Every form is called at n = 3 until its kernel is compiled; the table has microseconds a call, and
how many times the plain call of the same operator takes (the first row of its block). WORD...
chooses forms whose names hold one of them.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import fdiff

from .report import table

ROUNDS, SECONDS = 30, 2e-3
LIMIT, TIMES = 1.5, 3.0  # microseconds, or times the plain call

Form = tuple[str, Callable[[], Any]]
Point = namedtuple("Point", "x y")  # noqa: PYI024 - as users write it


@dataclass
class Params:
    """Parameters of a model, in a dataclass."""

    w: Any
    b: Any


class Model:
    """A model with a method."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.slope = fdiff.grad(self.loss)

    def loss(self, x: Any) -> Any:
        return self.scale * np.sum(x * x)


def square(x: Any) -> Any:
    return np.sum(x * x)


def cube(t: Any) -> Any:
    return t * t * t


def product(x: Any, y: Any) -> Any:
    return np.sum(x * y * y)


def keyword(x: Any, *, scale: Any = 1.0) -> Any:
    return np.sum(x * x) * scale


def option(x: Any, power: Any = 2, kind: Any = "sum") -> Any:
    return (np.sum if kind == "sum" else np.prod)(x**power)


def with_aux(x: Any) -> Any:
    return np.sum(x * x), {"norm": np.sqrt(np.sum(x * x)), "x": x}


def linear(p: Any) -> Any:
    return np.sum(p["w"] * p["w"]) + p["b"] * p["b"]


def layers(ps: Any) -> Any:
    return np.sum(ps[0] * ps[1]) + np.sum(ps[1])


def nested(p: Any) -> Any:
    return np.sum(p["a"]["w"] * p["b"][0]) + np.sum(p["b"][1])


def of_class(p: Any) -> Any:
    return np.sum(p.w * p.w) + np.sum(p.b)


def point(p: Any) -> Any:
    return np.sum(p.x * p.y)


def branch(x: Any) -> Any:
    return np.sum(x * x) if x[0] > 0.0 else np.sum(x)


def vector(x: Any) -> Any:
    return np.sin(x) * x


def forms() -> Iterator[list[Form]]:
    """The forms, in blocks; the first of each is the plain call."""
    x, y, rows = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.5, 2.5]), np.ones((4, 3))
    x4, zero, p = x.astype(np.float32), np.array(0.5), {"w": x, "b": 2.0}
    data = np.array([3.0, 2.0, 1.0])
    deep = {"a": {"w": x}, "b": [y, x]}
    g, vg = fdiff.grad, fdiff.value_and_grad
    gp, vgs = g(product), vg(square)
    gc_, gk, go = g(cube), g(keyword), g(option)
    both, aux, vaux = g(product, (0, 1)), g(with_aux, has_aux=True), vg(with_aux, has_aux=True)
    gl, gll, gn, gd, gpt = g(linear), g(layers), g(nested), g(of_class), g(point)
    jvg, jg, jf, jn = fdiff.jit(vg(square)), fdiff.jit(g(square)), fdiff.jit(square), fdiff.jit(gl)
    vm, jvm = fdiff.vmap(g(square)), fdiff.jit(fdiff.vmap(g(square)))
    vmf, vmj, vma = (
        fdiff.vmap(square),
        fdiff.vmap(fdiff.jacobian(vector)),
        fdiff.vmap(gp, (0, None)),
    )
    yield [
        ("value_and_grad(f)(x)", lambda: vgs(x)),
        ("jit(value_and_grad(f))(x)", lambda: jvg(x)),
        ("jit(jit(value_and_grad(f)))(x)", lambda h=fdiff.jit(jvg): h(x)),
        ("value_and_grad(f)(float32)", lambda: vgs(x4)),
        ("value_and_grad(f)(strided)", lambda v=np.arange(6.0)[::2]: vgs(v)),
        ("value_and_grad(f, has_aux)(x)", lambda: vaux(x)),
        ("value_and_grad(jit(f))(x)", lambda h=vg(jf): h(x)),
    ]
    yield [
        ("grad(f)(x)", lambda h=g(square): h(x)),
        ("jit(grad(f))(x)", lambda: jg(x)),
        ("vmap(grad(f))(X)", lambda: vm(rows)),
        ("jit(vmap(grad(f)))(X)", lambda: jvm(rows)),
        ("jit(f)(x)", lambda: jf(x)),
        ("vmap(f)(X)", lambda: vmf(rows)),
        ("vmap(jacobian(f))(X)", lambda: vmj(rows)),
        ("vmap(grad(f), (0, None))(X, y)", lambda: vma(rows, y)),
        ("grad(f, has_aux)(x)", lambda: aux(x)),
        ("grad(f)(x, out=)", lambda h=g(square), o=np.empty(3): h(x, out=o)),
        ("grad(method)(x)", lambda h=g(Model(2.0).loss): h(x)),
        ("self.slope(x)", lambda m=Model(2.0): m.slope(x)),
        ("grad(partial)(x)", lambda h=g(functools.partial(product, y=y)): h(x)),
        ("grad(partial of a float)(x)", lambda h=g(functools.partial(keyword, scale=2.0)): h(x)),
        ("grad(f)(x), f with a branch", lambda h=g(branch): h(x)),
        ("grad(lambda)(x) made anew", lambda: g(lambda x: np.sum(data * x * x))(x)),
    ]
    yield [
        ("grad(f)(float)", lambda: gc_(0.5)),
        ("grad(f)(np.float64)", lambda v=np.float64(0.5): gc_(v)),
        ("grad(f)(np.float32)", lambda v=np.float32(0.5): gc_(v)),
        ("grad(f)(0-d array)", lambda: gc_(zero)),
        ("jit(f)(np.float64)", lambda h=fdiff.jit(cube), v=np.float64(0.5): h(v)),
        ("jit(f)(float)", lambda h=fdiff.jit(cube): h(0.5)),
        ("jit(f)(int)", lambda h=fdiff.jit(cube): h(2)),
        ("jacobian(f)(t, y): t np.float64", lambda h=fdiff.jacobian(
            lambda t, y: t * y * y, argnums=1), t=np.float64(0.5): h(t, x)),
    ]  # fmt: skip
    yield [
        ("grad(f)(x, y)", lambda: gp(x, y)),
        ("grad(f)(x, y=y)", lambda: gp(x, y=y)),
        ("grad(f)(x=x, y=y)", lambda h=fdiff.jit(product): h(x=x, y=y)),
        ("grad(f)(x, scale=2.0)", lambda: gk(x, scale=2.0)),
        ("grad(f)(x, scale=np.float64)", lambda v=np.float64(2.0): gk(x, scale=v)),
        ("grad(f)(x, scale=array)", lambda: gk(x, scale=zero)),
        ("grad(f, (0, 1))(x, y)", lambda: both(x, y)),
        ("grad(f)(x, 3): int", lambda: go(x, 3)),
        ("grad(f)(x, True): bool", lambda: go(x, True)),
        ("grad(f)(x, 2, 'sum'): string", lambda: go(x, 2, "sum")),
        ("grad(f)(x, kind='sum')", lambda: go(x, kind="sum")),
        ("grad(f)(x, None)", lambda h=g(lambda x, y: np.sum(x)): h(x, None)),
        ("grad(f)(x, int array)", lambda h=g(product), k=np.array([1, 2, 3]): h(x, k)),
    ]
    yield [
        ("grad(f)(x)", lambda h=g(square): h(x)),
        ("grad(f)({'w': x, 'b': 2.0})", lambda: gl(p)),
        ("value_and_grad(f)({...})", lambda h=vg(linear): h(p)),
        ("jit(grad(f))({...})", lambda: jn(p)),
        ("grad(f)([x, y])", lambda v=[x, y]: gll(v)),
        ("grad(f)((x, y))", lambda v=(x, y): gll(v)),
        ("grad(f)({'a': {...}, 'b': [...]})", lambda: gn(deep)),
        ("grad(f)(dataclass)", lambda v=Params(x, y): gd(v)),
        ("grad(f)(namedtuple)", lambda v=Point(x, y): gpt(v)),
        ("grad(f)(*(x, y))", lambda: gp(*(x, y))),
    ]
    j, h, vjp, jvp, hvp = fdiff.jacobian, fdiff.hessian, fdiff.vjp, fdiff.jvp, fdiff.hvp
    yield [
        ("jacobian(f)(x)", lambda p=j(vector): p(x)),
        ("jacobian(f, x)", lambda: j(vector, x)),
        ("jacobian(lambda: data, x)", lambda: j(lambda x: data * x, x)),
        ("jacobian(f, (x, y))", lambda: j(lambda x, y: x * y, (x, y))),
        ("jacobian(f, argnums=(0, 1))(x, y)", lambda p=j(
            lambda x, y: x * y, argnums=(0, 1)): p(x, y)),
        ("hessian(f)(x)", lambda p=h(square): p(x)),
        ("hessian(f, x)", lambda: h(square, x)),
        ("vjp(f)(x, v)", lambda p=vjp(vector): p(x, y)),
        ("vjp(f, x, v)", lambda: vjp(vector, x, y)),
        ("jvp(f)(x, v)", lambda p=jvp(vector): p(x, y)),
        ("jvp(f, (x, y), (v, w))", lambda: jvp(lambda x, y: x * y, (x, y), (y, x))),
        ("hvp(f)(x, v)", lambda p=hvp(square): p(x, y)),
        ("hvp(f, x, v)", lambda: hvp(square, x, y)),
        ("vjp(f, argnums=(0, 1))((x, y), v)", lambda p=vjp(
            lambda x, y: x * y, argnums=(0, 1)): p((x, y), x)),
    ]  # fmt: skip


def microseconds(calls: list[Callable[[], Any]]) -> list[float]:
    """Of one call each, by batches in turn: the fastest tenth."""
    counts = []
    for call in calls:
        for _ in range(40):
            call()
        begin = time.perf_counter()
        for _ in range(20):
            call()
        counts.append(max(1, int(SECONDS / ((time.perf_counter() - begin) / 20))))
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, count, times in zip(calls, counts, found, strict=True):
            turns = range(count)
            begin = time.perf_counter()
            for _ in turns:
                call()
            times.append((time.perf_counter() - begin) / count)
    return [1e6 * sorted(times)[ROUNDS // 10] for times in found]


def main() -> None:
    os.environ["FDIFF_TIER"] = "compile"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    gc.disable()
    rows = []
    for block in forms():
        chosen = [f for k, f in enumerate(block)
                  if not k or not sys.argv[1:] or any(w in f[0] for w in sys.argv[1:])]  # fmt: skip
        found = microseconds([call for _, call in chosen])
        for (name, _), each in zip(chosen, found, strict=True):
            times = each / found[0]
            slow = "" if each <= LIMIT or times <= TIMES else "slow"
            rows.append([name, f"{each:.2f}", f"{times:.1f}", slow])
    print(table(["form", "µs", "times plain", ""], rows))


if __name__ == "__main__":
    main()

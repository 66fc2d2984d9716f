"""Random NumPy programs that store into arrays: entries, rows, slices and views, sums stored back.

A program is text, so that one that fails can be read and run by itself. It defines ``both(x)``, a
number and an array made of the same statements, ``f(x)``, the number, and ``g(x)``, the array.
Everything in it is analytic (conditions compare with a constant), so that NumPy itself can tell
derivatives, by the complex step (Squire and Trapp, SIAM Review 40(1), 1998). `reference` does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

Shape = tuple[int, ...]
LARGEST = 1e4  # programs whose values or derivatives grow beyond this say nothing about accuracy
STEP = 1e-30


@dataclass(frozen=True)
class StoringProgram:
    """The text of a program, its three functions, and where it is evaluated."""

    text: str
    f: Callable[[np.ndarray], np.ndarray]
    g: Callable[[np.ndarray], np.ndarray]
    both: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    x: np.ndarray


@dataclass(frozen=True)
class Reference:
    """What NumPy says at a point: values, and derivatives by the complex step."""

    value: np.ndarray
    array: np.ndarray
    gradient: np.ndarray
    jacobian: np.ndarray

    @property
    def sane(self) -> bool:
        """Whether the numbers are neither huge nor NaN."""
        parts = (self.value, self.array, self.gradient, self.jacobian)
        return all(np.all(np.abs(p) < LARGEST) for p in parts)


def reference(program: StoringProgram, x: np.ndarray) -> Reference:
    """Values and first derivatives, one run of NumPy in complex numbers for each entry of `x`."""
    value, array = (np.array(part) for part in program.both(x.copy()))
    gradient = np.empty(x.shape)
    jacobian = np.empty((*array.shape, *x.shape))
    for entry in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[entry] += 1j * STEP
        a_number, an_array = program.both(moved)
        gradient[entry] = np.imag(a_number) / STEP
        jacobian[(..., *entry)] = np.imag(an_array) / STEP
    return Reference(value, array, gradient, jacobian)


def second_reference(program: StoringProgram, x: np.ndarray, v: np.ndarray, h: float) -> np.ndarray:
    """Hessian times `v`: differences of gradients by the complex step, extrapolated once."""

    def slope(t: float) -> np.ndarray:
        ahead, behind = reference(program, x + t * v), reference(program, x - t * v)
        return (ahead.gradient - behind.gradient) / (2 * t)

    return (4 * slope(h / 2) - slope(h)) / 3


def storing_program(seed: int) -> StoringProgram:
    """The program of this number."""
    rng = random.Random(seed)
    shapes: tuple[Shape, ...] = ((4,), (5,), (6,), (3, 3), (3, 4), (2, 3), (4, 2))
    shape = rng.choice(shapes)
    text = _Text(rng, shape).program()
    names: dict[str, object] = {"np": np}
    exec(compile(text, f"<storing program {seed}>", "exec"), names)
    x = np.random.default_rng(seed).uniform(-1.2, 1.2, shape)
    f, g, both = (names[name] for name in ("f", "g", "both"))
    return StoringProgram(text, f, g, both, x)  # type: ignore[arg-type] - defined by the text


def _subscript(texts: list[str]) -> str:
    return f"[{', '.join(texts)}]"


def _function(name: str, lines: list[str], result: str) -> str:
    body = "".join(f"    {line}\n" for line in [*lines, f"return {result}"])
    return f"def {name}(x):\n{body}"


class _Text:
    """Grows the statements of one program."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.rng = rng
        self.shape = shape
        self.lines: list[str] = []
        self.copied: dict[int, str] = {}  # lines as the reference has them
        self.arrays: dict[str, Shape] = {"x": shape}  # what can be read
        self.stores: dict[str, Shape] = {}  # what can be stored into
        self.scalars: list[str] = []
        self.count = 0

    def program(self) -> str:
        rng = self.rng
        self._create()
        if rng.random() < 0.35:
            self._create()
        steps = [
            (self._store, 10), (self._loop, 3), (self._view, 2), (self._reduce, 2),
            (self._copy_entries, 3), (self._pick, 1), (self._into, 1), (self._sum_stored, 2),
        ]  # fmt: skip
        kinds, weights = zip(*steps, strict=True)
        for _ in range(rng.randint(1, 5)):
            rng.choices(kinds, weights)[0]()
        number, array = self._number(), self._array()
        safe = [self.copied.get(k, line) for k, line in enumerate(self.lines)]
        made = [
            ("f", self.lines, number),
            ("g", self.lines, array),
            ("both", safe, f"{number}, {array}"),
        ]
        return "\n\n".join(_function(*one) for one in made)

    def _assign(self, text: str, op: str, value: str) -> None:
        """A store; the reference copies what is stored first.

        NumPy does not where both are vectors of one array that differ in strides:
        ``a[::2] = a[:3]`` then reads entries that it has just written.
        """
        if op == "=":
            self.copied[len(self.lines)] = f"{text} = np.copy({value})"
        self.lines.append(f"{text} {op} {value}")

    def _name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # --- statements -------------------------------------------------------------------------------

    def _create(self) -> None:
        name = self._name("a")
        made = [
            "x.copy()", "x * 1.5", "np.sin(x)", "np.zeros_like(x)", "np.array(x)", "x + 0.0",
            "np.full_like(x, 0.25)", "np.tanh(x) * x", "x.copy()", "x.copy()",
        ]  # fmt: skip
        if self.stores:
            made += [f"{n}.copy()" for n, s in self.stores.items() if s == self.shape]
        self.lines.append(f"{name} = {self.rng.choice(made)}")
        self.arrays[name] = self.stores[name] = self.shape

    def _store(self) -> None:
        text, shape = self._target()
        op = self.rng.choices(["=", "+=", "-=", "*="], [6, 4, 1, 1])[0]
        self._assign(text, op, self._expression(shape))

    def _copy_entries(self) -> None:
        """One piece of an array into another, or into itself: nothing is computed."""
        text, shape = self._target()
        self._assign(text, "=", self._term(shape, plain=True))

    def _sum_stored(self) -> None:
        """A sum of an array put back into it or another."""
        text, _ = self._target()
        source = self.rng.choice(list(self.stores))
        op = self.rng.choice(["=", "+=", "*="])
        self.lines.append(f"{text} {op} {self._constant()} * np.sum({source})")

    def _into(self) -> None:
        text, shape = self._target(pieces=False)
        function = self.rng.choice(["np.multiply", "np.add"])
        self.lines.append(f"{function}({text}, {self._expression(shape)}, out={text})")

    def _pick(self) -> None:
        """Rows or entries by a list of places, each once."""
        name = self.rng.choice(list(self.stores))
        shape = self.stores[name]
        count = self.rng.randint(1, min(3, shape[0]))
        places = self.rng.sample(range(-shape[0], 0), count)
        places = [p if self.rng.random() < 0.5 else p + shape[0] for p in places]
        op = self.rng.choice(["=", "+="])
        self.lines.append(f"{name}[{places}] {op} {self._expression((count, *shape[1:]))}")

    def _view(self) -> None:
        """A name for a part of an array, through which both are stored into from then on."""
        source = self.rng.choice(list(self.stores))
        shape = self.stores[source]
        name = self._name("v")
        ways = [self._region(shape)]
        if len(shape) == 2:
            ways += [(".T", shape[::-1]), (".reshape(-1)", (shape[0] * shape[1],))]
            ways += [self._row(shape), self._column(shape)]
        text, part = self.rng.choice(ways)
        if part:
            self.lines.append(f"{name} = {source}{text}")
            self.arrays[name] = self.stores[name] = part

    def _reduce(self) -> None:
        name = self._name("s")
        source = self.rng.choice(list(self.arrays))
        shape = self.arrays[source]
        c = self._constant()
        if len(shape) == 2 and self.rng.random() < 0.5:
            axis = self.rng.choice([0, 1])
            self.lines.append(f"{name} = {c} * np.sum({source}, axis={axis})")
            self.arrays[name] = (shape[1 - axis],)
            return
        others = [n for n, s in self.arrays.items() if s == shape]
        made = [
            f"np.sum({source})", f"np.sum({source} * {self.rng.choice(others)})",
            f"np.mean({source})", f"{self._entry(source)} * {self._entry(source)}",
        ]  # fmt: skip
        text = self.rng.choice(made)
        if len(shape) == 1 and self.rng.random() < 0.3:
            self.lines.append(f"{name} = {c} * np.cumsum({source})")
            self.arrays[name] = shape
            return
        self.lines.append(f"{name} = {c} * {text}")
        self.scalars.append(name)

    def _loop(self) -> None:
        """A loop over entries, or over rows, that reads what it has just stored."""
        name = self.rng.choice(list(self.stores))
        shape = self.stores[name]
        n, forwards = shape[0], self.rng.random() < 0.7
        if n < 2:
            return
        back = "i-1" if forwards else "i+1"
        over = f"range(1, {n})" if forwards else f"range({n - 2}, -1, -1)"
        alike = [a for a, s in self.arrays.items() if s == shape]
        self.lines.append(f"for i in {over}:")
        if len(shape) == 2 and self.rng.random() < 0.6 and shape[1] > 1:
            terms = [f"{name}[{back}, j]", f"{name}[i, j-1]", f"{name}[{back}, j-1]"]
            terms += [f"{self.rng.choice(alike)}[i, j]" for _ in range(2)]
            self.lines.append(f"    for j in range(1, {shape[1]}):")
            self.lines.append(f"        {name}[i, j] {self._stencil(terms)}")
        else:
            terms = [f"{name}[{back}]", f"{self.rng.choice(alike)}[i]", f"{name}[i]"]
            self.lines.append(f"    {name}[i] {self._stencil(terms)}")

    def _stencil(self, terms: list[str]) -> str:
        rng = self.rng
        some = [terms[0], *rng.sample(terms[1:], rng.randint(1, len(terms) - 1))]
        if rng.random() < 0.15 and self.scalars:
            some.append(rng.choice(self.scalars))
        products = [f"{self._constant()} * {t}" if rng.random() < 0.5 else t for t in some]
        text = " + ".join(products) if rng.random() < 0.8 else " * ".join(products)
        op = rng.choice(["=", "=", "+="])
        ways = ["{}", "{}", "0.25 * ({})", "np.sin({})", "np.tanh({})"]
        return f"{op} {rng.choice(ways).format(text)}"

    # --- pieces of arrays -----------------------------------------------------------------------

    def _target(self, *, pieces: bool = True) -> tuple[str, Shape]:
        """Something that can be stored into, with its shape."""
        name = self.rng.choice(list(self.stores))
        shape = self.stores[name]
        if pieces and self.rng.random() < 0.45:
            return self._entry(name), ()
        if self.rng.random() < 0.2:
            return name + (self.rng.choice(["[:]", "[...]"]) if pieces else ""), shape
        ways = [self._region(shape)]
        if len(shape) == 2:
            ways += [self._row(shape), self._column(shape)]
        text, part = self.rng.choice(ways)
        return name + text, part

    def _entry(self, name: str) -> str:
        shape = self.arrays[name]
        places = [self.rng.randint(-n, n - 1) for n in shape]
        return name + _subscript([str(p) for p in places])

    def _row(self, shape: Shape) -> tuple[str, Shape]:
        return f"[{self.rng.randrange(shape[0])}]", shape[1:]

    def _column(self, shape: Shape) -> tuple[str, Shape]:
        return f"[:, {self.rng.randint(-shape[1], shape[1] - 1)}]", shape[:1]

    def _region(self, shape: Shape) -> tuple[str, Shape]:
        """A slice of each axis."""
        counts = tuple(self.rng.randint(1, n) for n in shape)
        return _subscript([self._slice(n, k) for n, k in zip(shape, counts, strict=True)]), counts

    def _slice(self, n: int, count: int) -> str:
        """A slice that takes `count` of `n` entries, forwards or backwards."""
        steps = [s for s in (1, 1, 1, -1, 2, -2) if (count - 1) * abs(s) < n]
        step = self.rng.choice(steps)
        reach = (count - 1) * abs(step)
        low = self.rng.randint(0, n - 1 - reach)
        if step > 0:
            last = low + reach + 1
            stop = "" if last == n else str(last) if self.rng.random() < 0.6 else str(last - n)
            return f"{low or ''}:{stop}" + (f":{step}" if step > 1 else "")
        start, stop = low + reach, low - 1
        return f"{start if start < n - 1 else ''}:{stop if stop >= 0 else ''}:{step}"

    # --- expressions ----------------------------------------------------------------------------

    def _constant(self) -> str:
        return self.rng.choice(["0.5", "2.0", "0.25", "-1.0", "-0.7", "1.3"])

    def _term(self, shape: Shape, *, plain: bool = False) -> str:
        """Something that is read, of this shape or spread over it."""
        rng = self.rng
        if not shape:
            ways = [self._entry(rng.choice(list(self.arrays))) for _ in range(3)]
            ways += self.scalars[-2:]
            if not plain:
                ways.append(f"np.sum({rng.choice(list(self.arrays))}) * 0.5")
            return rng.choice(ways)
        found: list[str] = []
        for name, own in self.arrays.items():
            found += self._reads(name, own, shape)
        return rng.choice(found) if found and rng.random() < 0.85 else self._term((), plain=plain)

    def _reads(self, name: str, own: Shape, shape: Shape) -> Iterator[str]:
        """Pieces of an array that have this shape, or are spread over it."""
        row = self.rng.randrange
        if len(own) == len(shape) and all(a >= b for a, b in zip(own, shape, strict=True)):
            pairs = zip(own, shape, strict=True)
            yield name + _subscript([self._slice(n, k) for n, k in pairs])
        if own == shape:
            yield name
        if len(own) == 2 and len(shape) == 1:
            if own[1] >= shape[0]:
                yield f"{name}[{row(own[0])}, {self._slice(own[1], shape[0])}]"
            if own[0] >= shape[0]:
                yield f"{name}[{self._slice(own[0], shape[0])}, {row(own[1])}]"
        if len(own) == 2 and own[::-1] == shape:
            yield f"{name}.T"
        if len(own) == 1 and len(shape) == 2:
            if own[0] >= shape[1]:
                yield f"{name}[{self._slice(own[0], shape[1])}]"
            if own[0] >= shape[0]:
                yield f"{name}[{self._slice(own[0], shape[0])}, None]"

    def _expression(self, shape: Shape) -> str:
        rng = self.rng
        one, two = self._term(shape), self._term(shape)
        ways = [
            "{0}", "{c} * {0}", "{c} * {0}", "np.sin({0})", "np.tanh({0})", "np.exp(0.3 * {0})",
            "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} + {c} * {1}", "{0} * {c} + {d}",
            "np.where({0} > 0.37, {1}, {c} * {0})", "{0} ** 2", "{0} / (2.0 + {1} ** 2)", "{c}",
            "0.25 * ({0} + {1})",
        ]  # fmt: skip
        return rng.choice(ways).format(one, two, c=self._constant(), d=self._constant())

    # --- results --------------------------------------------------------------------------------

    def _number(self) -> str:
        rng = self.rng
        name = rng.choice(list(self.stores))
        shape = self.stores[name]
        alike = [a for a, s in self.arrays.items() if s == shape]
        ways = [
            f"np.sum({name})", f"np.sum({name} * {name})", f"np.sum({name} * np.cos({name}))",
            *[f"np.sum({name} * np.cos({a}))" for a in alike],
            *[f"np.sum({name} * {a})" for a in alike], f"{self._entry(name)} * np.sum({name})",
        ]  # fmt: skip
        text = rng.choice(ways)
        if self.scalars and rng.random() < 0.4:
            text += f" + {rng.choice(self.scalars)}"
        if rng.random() < 0.3:
            text += f" + np.sum({rng.choice(list(self.arrays))})"
        return text

    def _array(self) -> str:
        name = self.rng.choice(list(self.stores))
        ways = [name, name, f"np.sin({name})", f"{name} * 2.0"]
        text, part = self._region(self.stores[name])
        return self.rng.choice([*ways, name + text] if part else ways)

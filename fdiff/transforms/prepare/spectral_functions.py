"""Products ``V f(w) V'`` of eigenvectors and functions of eigenvalues are functions of the matrix.

As such they have derivatives where eigenvalues are equal, and eigenvectors have none: no rule of
`eigh` can tell them from projectors. What is recognised: eigenvectors, transposed or not, whose
columns are multiplied by weights (``V * d``, ``V @ diag(d)``, by `einsum`), and the product of two
of these over the columns. Weights are computed entry by entry from the eigenvalues and from numbers
that are the same for all.

N. J. Higham, Functions of Matrices, SIAM 2008, theorem 3.11; `ops/linear_algebra/spectral_sums.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, Shape, without_ones
from ...hooks import hooks
from ...named_tuples import NamedTuple
from ...ops.entrywise.elementwise import multiply, stop
from ...ops.entrywise.kink_marks import mark
from ...ops.linear_algebra.contraction import contract
from ...ops.linear_algebra.eigenvalues import eigh
from ...ops.linear_algebra.spectral_sums import known_function
from ...ops.shapes.gather_scatter import scatter_add
from ...ops.shapes.subscripts import parse
from ...ops.shapes.view_ops import reshape, transpose
from ...tape import CONSTANT, ITEM, Builder, Tape, rebuild
from ..derivative_tapes import choose, gradient
from ..simplify import simplify


def slope(f: Tape, k: int) -> Tape:
    """The partial derivative of a function of numbers in argument `k`."""
    return simplify(choose(gradient(f, (k,)), (1,)))


hooks.slope = slope


class WeightedVectors(NamedTuple):
    """Eigenvectors with weights: the axis of rows, the axis of columns, and the weights.

    Without rows it is a diagonal matrix, and both axes are axes of columns.
    """

    row: int
    column: int
    weights: tuple[int, ...] = ()


def recognise_matrix_functions(tape: Tape) -> Tape:
    """Replace products of eigenvectors and functions of eigenvalues by functions of the matrix."""
    replacements = {}
    for i, node in enumerate(tape.nodes):
        if (
            node.primitive is eigh
            and node.types[1].dtype.kind == "f"
            and node.types[0].shape[-1] > 1
        ):
            spectrum = _Spectrum(tape, i)
            replacements |= {k: partial(spectrum.enter, k) for k in spectrum.functions}
    return rebuild(tape, Builder(), replacements) if replacements else tape


class _Spectrum:
    """Uses of the eigenvalues and eigenvectors of one `eigh`.

    `values` are the nodes computed entry by entry from eigenvalues, `columns` and `diagonals` the
    matrices with such weights, `functions` the weights of each product that is a function.
    """

    def __init__(self, tape: Tape, root: int) -> None:
        self.tape, self.root = tape, root
        self.n = tape.nodes[root].types[0].shape[-1]
        self.values: set[int] = set()
        self.columns: dict[int, WeightedVectors] = {}
        self.diagonals: dict[int, int] = {}
        self.functions: dict[int, tuple[int, ...]] = {}
        for i in range(root + 1, len(tape.nodes)):
            self._look(i)

    def _look(self, i: int) -> None:
        node = self.tape.nodes[i]
        primitive, args, shape = node.primitive, node.args, node.types[0].shape
        if primitive is ITEM and args[0] == self.root:
            if node.k:
                self.columns[i] = WeightedVectors(len(shape) - 2, len(shape) - 1)
            else:
                self.values.add(i)
        elif not self.values.isdisjoint(args) and self._is_value(i):
            self.values.add(i)
        elif primitive is multiply:
            for a, d in (args, args[::-1]):
                if (
                    (form := self.columns.get(a))
                    and d in self.values
                    and self._lies_along_columns(d, shape, form)
                ):
                    self.columns[i] = form._replace(weights=(*form.weights, d))
        elif primitive is mark and args[0] in self.columns:
            self.columns[i] = self.columns[args[0]]
        elif primitive is transpose and args[0] in self.columns:
            axes, form = node.param("axes"), self.columns[args[0]]
            self.columns[i] = form._replace(
                row=axes.index(form.row), column=axes.index(form.column)
            )
        elif primitive is scatter_add and args[0] in self.values and len(set(args[1:])) == 1:
            places = self.tape.nodes[args[1]].value
            if (
                shape == (self.n,) * 2
                and places is not None
                and (places == np.arange(self.n)).all()
            ):
                self.diagonals[i] = args[0]
        elif primitive is contract:
            self._look_at_product(i, *parse(node.param("subscripts")))

    def _is_value(self, i: int) -> bool:
        """Whether a node is computed from eigenvalues alone, and from numbers."""
        node = self.tape.nodes[i]
        if node.primitive is reshape:
            return without_ones(node.type.shape) == without_ones(
                self.tape.nodes[node.args[0]].type.shape
            )
        others = [self.tape.nodes[a].type.shape for a in node.args if a not in self.values]
        shapes = [self.tape.nodes[a].type.shape for a in node.args if a in self.values]
        same = all(shape == node.type.shape for shape in shapes)
        return node.primitive.family == "elementwise" and same and not any(others)

    def _lies_along_columns(self, d: int, shape: Shape, form: WeightedVectors) -> bool:
        """Whether weights lie along the columns of a matrix, and along its stack."""
        own = self.tape.nodes[d].type.shape
        if len(own) < len(shape) and len(shape) > 2:
            return False
        own = (1,) * (len(shape) - len(own)) + own
        return own[form.column] == self.n and own[form.row] == 1

    def _look_at_product(self, i: int, left: str, right: str, out: str) -> None:
        a, b = self.tape.nodes[i].args
        for x, d, own, other in ((a, b, left, right), (b, a, right, left)):
            form = self.columns.get(x)
            if form is None:
                continue
            row, column = own[form.row], own[form.column]
            weights = self.diagonals.get(d, d if d in self.values and other == column else None)
            after = other.replace(column, "", 1) if d in self.diagonals else column
            if weights is not None and column in other and row in out and after in out:
                at = WeightedVectors(out.index(row), out.index(after), (*form.weights, weights))
                self.columns[i] = at
                return
        if a in self.columns and b in self.columns:
            first, second = self.columns[a], self.columns[b]
            rows = left[first.row] + right[second.row]
            stack = left.replace(rows[0], "").replace(left[first.column], "")
            whole = out[:-2] == stack and sorted(out[-2:]) == sorted(rows)
            weights = (*first.weights, *second.weights)
            if (
                left[first.column] == right[second.column]
                and whole
                and weights
                and len(left) == len(right)
            ):
                self.functions[i] = weights

    def enter(self, i: int, b: Builder, ids: dict[int, int]) -> int:
        """Enter the function of the matrix in place of product `i`."""
        node, root = self.tape.nodes[i], self.tape.nodes[self.root]
        value = b.add(node.primitive, tuple([ids[a] for a in node.args]), node.params)
        f, numbers = self._function(self.functions[i])
        args = (ids[root.args[0]], b.add(stop, (value,)), *[ids[k] for k in numbers])
        return b.add(known_function, args, (("f", f), ("uplo", root.param("uplo"))))

    def _function(self, weights: Sequence[int]) -> tuple[Tape, list[int]]:
        """The product of some weights as a function of one eigenvalue and further numbers."""
        nodes, b = self.tape.nodes, Builder()
        number = lambda k: ArrayType((), nodes[k].type.dtype)  # noqa: E731 - a type in one line
        root = next(k for k in sorted(self.values) if nodes[k].primitive is ITEM)
        ids = {root: b.input(number(root))}
        needed = [i for i in self._nodes_between(weights) if i != root]
        numbers = [
            k
            for k in dict.fromkeys(a for i in needed for a in nodes[i].args)
            if k not in self.values and nodes[k].primitive is not CONSTANT
        ]
        ids |= {k: b.input(number(k)) for k in numbers}
        for i in needed:
            node = nodes[i]
            for a in node.args:
                if a not in ids:
                    value = nodes[a].value
                    assert value is not None, "a number that is no input"
                    ids[a] = b.constant(value)
            args = tuple([ids[a] for a in node.args])
            ids[i] = (
                args[0] if node.primitive is reshape else b.add(node.primitive, args, node.params)
            )
        out = ids[weights[0]]
        for d in weights[1:]:
            out = b.add(multiply, (out, ids[d]))
        # Inputs stay in order, also where the function does not depend on one.
        return b.finish([out]), numbers

    def _nodes_between(self, weights: Sequence[int]) -> list[int]:
        """The nodes between eigenvalues and weights, in order."""
        below, waiting = set[int](), [*weights]
        while waiting:
            i = waiting.pop()
            if i in self.values and i not in below:
                below.add(i)
                waiting += [a for a in self.tape.nodes[i].args if a in self.values]
        return sorted(below)

"""Random programs of recorded operations, played in torch and in fdiff.

A program is a list of statements in Python. What they call stands in a vocabulary, of which there
is one for each library; the text is the same. `write` makes a program while it plays it in torch,
so that shapes fit; `play` plays one and gives its log: after each statement what is to be seen of
its result, or what kind of error it raised.
"""

import random
import warnings
from dataclasses import dataclass, field

import numpy as np
import torch

import fdiff.autograd as recorded

# What the messages of errors have in common, and how each kind is called in logs.
KINDS = {
    "backward through the graph a second time": "freed",
    "has been modified by an inplace operation": "modified",
    "a leaf Variable that requires grad is being used in an in-place operation": "leaf stored into",
    "a view of a leaf Variable that requires grad is being used in an in-place": "leaf's view",
    "does not require grad": "no gradient required",
    "grad can be implicitly created only for scalar outputs": "no scalar",
    "appears to not have been used in the graph": "unused",
    "can't retain_grad on Tensor that has requires_grad=False": "nothing to retain",
    "cannot register a hook on a tensor that doesn't require gradient": "nothing to hook",
    "you can only change requires_grad flags of leaf variables": "no leaf",
    "A view was created in no_grad mode": "view without gradients",
}


class Torch:
    """The vocabulary in torch."""

    no_grad, enable_grad = torch.no_grad, torch.enable_grad
    sin, cos, exp, maximum, where = torch.sin, torch.cos, torch.exp, torch.maximum, torch.where
    tanh = torch.tanh
    cat, stack, matmul, absolute, sum = torch.cat, torch.stack, torch.matmul, torch.abs, torch.sum
    prod, amax, mean = torch.prod, torch.amax, torch.mean
    square, negative, broadcast_to = torch.square, torch.neg, torch.broadcast_to
    grad, array = torch.autograd.grad, torch.Tensor

    @staticmethod
    def leaf(values, requires_grad=True):
        return torch.tensor(values, dtype=torch.float64, requires_grad=requires_grad)

    @staticmethod
    def turned(x):
        return x.permute(*range(x.ndim - 1, -1, -1))


class Fdiff:
    """The vocabulary in fdiff: NumPy."""

    no_grad, enable_grad = recorded.no_grad, recorded.enable_grad
    sin, cos, exp, maximum, where = np.sin, np.cos, np.exp, np.maximum, np.where
    tanh = np.tanh
    cat, stack, matmul, absolute, sum = np.concatenate, np.stack, np.matmul, np.absolute, np.sum
    prod, amax, mean = np.prod, np.amax, np.mean
    square, negative, broadcast_to = np.square, np.negative, np.broadcast_to
    grad, array = recorded.grad, recorded.RecordedArray

    @staticmethod
    def leaf(values, requires_grad=True):
        return recorded.tensor(values, requires_grad=requires_grad, dtype=np.float64)

    @staticmethod
    def turned(x):
        return x.T


def kind_of(error):
    """How an error is called in logs."""
    found = [kind for words, kind in KINDS.items() if words in str(error)]
    return found[0] if found else f"another: {type(error).__name__}: {error}"


def numbers(x):
    """The entries of an array of either library."""
    return np.array(x.detach().numpy() if isinstance(x, Torch.array) else x.detach().value)


def seen(x):
    """What is to be seen of an array: flags, entries."""
    return x.requires_grad, x.is_leaf, x.grad_fn is not None, numbers(x)


def run(statement, names):
    """Run one statement; its entry in the log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of reading the grad of what is no leaf
        try:
            exec(statement, names)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
            return "error", kind_of(error)
        name = statement.split(" ", 1)[0]
        result = names.get(name)
        return ("array", *seen(result)) if hasattr(result, "grad_fn") else ("done",)


def arrays(names):
    """The arrays of a program, by name, in order."""
    return {n: x for n, x in names.items() if hasattr(x, "grad_fn")}


def end(names):
    """All arrays at the end, with their gradients."""
    log = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, x in arrays(names).items():
            log[name] = (*seen(x), None if x.grad is None else numbers(x.grad))
    return log


def play(program, vocabulary):
    """The log of a program, and its arrays at the end."""
    names = {"L": vocabulary}
    return [run(statement, names) for statement in program], end(names)


# --------------------------------------------------------------------------------------- writing


@dataclass
class Writer:
    """Writes a program of `length` statements, and plays it in torch."""

    seed: int
    length: int
    stores: bool = True
    statements: list[str] = field(default_factory=list)
    log: list = field(default_factory=list)

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.names = {"L": Torch}
        self.count = 0

    def write(self):
        for _ in range(self.random.randint(1, 3)):
            self.leaf()
        while len(self.statements) < self.length:
            kinds = (self.compute, self.view, self.flow, self.differentiate, self.leaf)
            weights = (12, 4, 3, 3, 0.5)
            if self.stores:
                kinds, weights = (*kinds, self.store), (*weights, 4)
            self.random.choices(kinds, weights)[0]()
        self.add(f"L.sum({self.any()} * 0.5).backward()")
        return self.statements

    def add(self, statement):
        self.statements.append(statement)
        self.log.append(run(statement, self.names))

    def new(self, expression):
        self.add(f"v{self.count} = {expression}")
        self.count += 1

    def any(self, fits=lambda x: True):
        """The name of some array; later ones are likelier."""
        known = arrays(self.names).items()
        found = [n for n, x in known if x.numel() <= 64 and x.ndim <= 3 and fits(x)]
        if not found:
            return None
        return found[int(len(found) * self.random.random() ** 0.6)]

    def like(self, name):
        """The name of an array that broadcasts to the shape of another."""
        shape = self.names[name].shape
        return self.any(lambda x: x.shape in {shape, torch.Size([])})

    def leaf(self):
        shape = self.random.choice([(3,), (2, 3), (2, 3), ()])
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        values = np.round(rng.uniform(-1.5, 1.5, shape), 3).tolist()
        self.new(f"L.leaf({values}, {self.random.random() < 0.85})")

    def compute(self):
        a = self.any()
        b = self.like(a)
        shape = tuple(self.names[a].shape)
        choices = [
            *(f"{a} * {b}", f"{a} + {b}", f"{a} - {b}", f"{a} * ({b} * {b} + 1.0)", f"{a} * 1.5"),
            *(f"L.sin({a})", f"L.cos({a})", f"L.exp(-L.square({a}))", f"L.maximum({a}, {b})"),
            *(f"L.where({a} > 0.1, {a}, {b} * 0.3)", f"L.absolute({a})", f"L.sum({a})"),
            *(f"L.mean({a})", f"{a} ** 2", f"L.negative({a})", f"2.0 - {a}", f"L.prod({a})"),
            f"L.sum(L.amax({a}, 0))" if shape else f"L.sin({a}) * 2.0",
        ]
        if shape:
            choices += [f"L.sum({a}, 0)", f"L.cat([{a}, {a}], 0)", f"L.stack([{a}, {a} * 2.0], 0)"]
            choices += [f"L.broadcast_to({a}, {(2, *shape)}).clone()"] * (len(shape) < 2)
        if len(shape) == 2:
            choices += [f"L.matmul({a}, L.turned({a}))", f"L.sum({a}, 1)"]
        if not self.stores:  # see the table of differences in test_random_programs.py
            choices += [f"{a} / ({b} * {b} + 1.0)", f"L.tanh({a})"]
        choices = [c for c in choices if "None" not in c]
        self.new(self.random.choice(choices))

    def view(self):
        a = self.any(lambda x: x.ndim > 0)
        if a is None:
            return
        shape = tuple(self.names[a].shape)
        keys = [f"{self.random.randrange(shape[0])}:", f":{shape[0]}", "None", "..."]
        if len(shape) > 1:  # an entry is no view in NumPy
            keys.append(str(self.random.randrange(shape[0])))
        choices = [f"{a}[{key}]" for key in keys]
        choices += [f"L.turned({a})", f"{a}.reshape(-1)", f"{a}.reshape({shape})"]
        self.new(self.random.choice(choices))

    def flow(self):
        a = self.any()
        needs = self.names[a].requires_grad
        choices = [f"{a}.detach()", f"{a}.clone()", f"{a}.data"]
        if needs:
            factor = self.random.choice([2.0, -1.0, 0.0])
            self.random.choice([
                lambda: self.add(f"{a}.register_hook(lambda g: g * {factor})"),
                lambda: self.add(f"{a}.register_hook(lambda g: None)"),
                lambda: self.add(f"{a}.retain_grad()"),
                lambda: self.new(self.random.choice(choices)),
            ])()  # fmt: skip
        elif self.random.random() < 0.4:
            self.new(f"{a}.detach().clone().requires_grad_()")
        else:
            self.new(self.random.choice(choices))
        if self.random.random() < 0.3:
            b = self.any()
            mode = self.random.choice(["no_grad", "no_grad", "enable_grad"])
            self.add(f"with L.{mode}(): v{self.count} = {b} * 2.0 + L.sin({b})")
            self.count += 1

    def differentiate(self):
        a = self.any()
        retain = self.random.choice(
            ["", "retain_graph=True", "retain_graph=True", "create_graph=True"]
        )
        total = self.random.choice([f"L.sum({a} * {a})", f"L.sum(L.sin({a}))", a])
        if self.random.random() < 0.6:
            self.add(f"({total}).backward({retain})")
        else:
            b = self.any()
            unused = self.random.choice(["", ", materialize_grads=True"])
            self.new(f"L.grad({total}, {b}{', ' * bool(retain)}{retain}{unused})[0].clone()")
        if self.random.random() < 0.2 and (leaf := self.any(lambda x: x.is_leaf)):
            self.add(f"{leaf}.grad = None")

    def overlap(self, a, b):
        """Whether two arrays are in the same memory, perhaps."""
        one, other = (self.names[name].untyped_storage().data_ptr() for name in (a, b))
        return one == other

    def store(self):
        a = self.any(lambda x: x.ndim > 0)  # NumPy's scalars are immutable
        if a is None:
            return
        b = self.like(a)
        shape = tuple(self.names[a].shape)
        choices = [f"{a} *= 1.25", f"{a} += {b}", f"{a}[...] = 0.5", f"{a} -= 0.25"]
        if not self.overlap(a, b):
            choices.append(f"{a} *= {b}")
        k = self.random.randrange(shape[0])
        entry = self.any(lambda x: x.shape in {torch.Size(shape[1:]), torch.Size([])})
        choices += [f"{a}[{k}] = 2.0", f"{a}[{k}:] *= 0.75"]
        if entry and not self.overlap(a, entry):
            choices += [f"{a}[{k}] = {entry}"] * 3
        statement = self.random.choice([c for c in choices if "None" not in c])
        if self.random.random() < 0.15:
            statement = f"with L.no_grad(): {statement}"
        self.add(statement)


def write(seed, *, stores=True):
    """A random program, the same for each seed, and its log in torch."""
    writer = Writer(seed, 6 + seed % 14, stores)
    program = writer.write()
    return program, writer.log, end(writer.names)


def differences(program, one, other):
    """Where two logs differ, in words.

    Up to the first pass that fails for a modified array: torch has freed a part of the graph then,
    and fdiff nothing.
    """
    found = []
    for k, (statement, a, b) in enumerate(zip(program, one[0], other[0], strict=True)):
        if not same(a, b):
            found.append(f"{k}: {statement}\n      torch: {a}\n      fdiff: {b}")
        if a == ("error", "modified"):
            return found
    found += [
        f"end, {n}\n      torch: {a}\n      fdiff: {other[1].get(n)}"
        for n, a in one[1].items()
        if not same(a, other[1].get(n))
    ]
    return found


def same(a, b):
    """Whether two entries of logs agree; entries of arrays up to rounding."""
    if isinstance(a, np.ndarray):
        close = isinstance(b, np.ndarray) and a.shape == b.shape
        return close and np.allclose(a, b, rtol=1e-10, atol=1e-12, equal_nan=True)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b

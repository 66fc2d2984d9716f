"""Exact derivatives of functions of the tests as they are, which share no code with fdiff.

Functions and classes that tests define run with numbers (`second_order_numbers.py`): copies of them
see the stand-in for `numpy`.
"""

import types
from pathlib import Path

import numpy as np
from second_order_numbers import StandIn, floating, run

TESTS = str(Path(__file__).parent)


class Names(dict):
    """Global names of a function, with the stand-in and what else runs with it in their places."""

    def __init__(self, names, library):
        super().__init__({"float": floating, "__builtins__": names["__builtins__"]})
        self.names, self.library = names, library

    def __missing__(self, name):
        self[name] = self.library.of_numbers(self.names[name])
        return self[name]


class OfNumbers(StandIn):
    """A stand-in for functions and classes of the tests, as they are, in place of text."""

    def __init__(self):
        super().__init__(object)
        self.copies, self.spaces = {id(np): self}, {}

    def of_numbers(self, value):
        """A function or class that computes with numbers; another value as it is."""
        if id(value) not in self.copies:
            if _is_of_fdiff(value):
                raise TypeError("numbers do not run functions of fdiff")
            own = isinstance(value, types.FunctionType) and _is_of_tests(value)
            if own or _is_class_of_tests(value):
                return self.function(value) if own else self.class_(value)
        return self.copies.get(id(value), value)

    def function(self, plain):
        if id(plain.__globals__) not in self.spaces:
            self.spaces[id(plain.__globals__)] = Names(plain.__globals__, self)
        cells = tuple(types.CellType() for _ in plain.__closure__ or ())
        copied = types.FunctionType(
            plain.__code__, self.spaces[id(plain.__globals__)], plain.__name__,
            plain.__defaults__, cells,
        )  # fmt: skip
        copied.__kwdefaults__ = plain.__kwdefaults__
        self.copies[id(plain)] = copied
        for cell, before in zip(cells, plain.__closure__ or (), strict=True):
            cell.cell_contents = self.of_numbers(before.cell_contents)
        return copied

    def class_(self, plain):
        bases = tuple(self.of_numbers(base) for base in plain.__bases__)
        copied = self.copies[id(plain)] = type(plain)(plain.__name__, bases, {})
        for name, member in vars(plain).items():
            if name not in ("__dict__", "__weakref__"):
                setattr(copied, name, self.member(member))
        return copied

    def member(self, member):
        if isinstance(member, (staticmethod, classmethod)):
            return type(member)(self.of_numbers(member.__func__))
        if isinstance(member, property):
            return property(self.of_numbers(member.fget), self.of_numbers(member.fset))
        return self.of_numbers(member)


def _is_of_fdiff(value):
    """Whether a value is a module, class, object or function of fdiff, or prepared by it."""
    names = value.__dict__ if isinstance(value, types.ModuleType) else {}
    names = value.__globals__ if isinstance(value, types.FunctionType) else names
    module = names.get("__name__") or (value if isinstance(value, type) else type(value)).__module__
    return module.partition(".")[0] == "fdiff"


def _is_of_tests(function):
    return function.__code__.co_filename.startswith(TESTS)


def _is_class_of_tests(value):
    """Whether a value is a class without slots whose methods tests define."""
    return (
        type(value) is type
        and "__slots__" not in vars(value)
        and any(isinstance(m, types.FunctionType) and _is_of_tests(m) for m in vars(value).values())
    )


def exact_of_function(f, x):
    """Value, gradient and Hessian of a function of a vector, with all functions it calls."""
    return run(OfNumbers().of_numbers(f), x)

"""Checks of the operators' options: argnums, mode, chunk_size, device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from inspect import signature
from typing import TypeGuard, cast

import fdiff.intact_numpy as np

from ..device_arrays import DEVICES
from ..dispatch.arguments import ONCE, Function
from ..errors import InputError, called, choice, failure, flag, shown
from ..foreign_errors import Suppressed

MODES = ("auto", "forward", "reverse")
STRATEGIES = {"reverse-mode": "reverse", "forward-mode": "forward"}
_CHEAPER = "Leave it out to have the cheaper one."


class LeftOut:
    """The type of the default of `inputs`: without inputs, a call makes a prepared function."""

    def __repr__(self) -> str:
        return "<left out>"


LEFT_OUT = LeftOut()


def check_callable(f: object, name: str) -> None:
    """Refuse anything that cannot be called."""
    if not callable(f):
        fact = f"expects a function first, not {type(f).__name__}."
        raise failure(
            InputError, name, fact, f"Pass the function itself, not its result: {name}(f)."
        )


def is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_argnums(argnums: object, f: object, name: str) -> int | tuple[int, ...]:
    """An int or a tuple of different ints."""
    if is_int(argnums):
        return int(argnums)
    call = called(name, f)
    numbers = cast("Sequence[int]", argnums)
    if not isinstance(argnums, (tuple, list)) or not argnums or not all(map(is_int, argnums)):
        fact = f"argnums must be an int or a tuple of ints, not {shown(argnums)}."
        raise failure(InputError, call, fact, _by_number(argnums, f, name))
    if len(set(numbers)) < len(numbers):
        raise failure(InputError, call, f"argnums={shown(argnums)} names an argument twice.", ONCE)
    return tuple(int(n) for n in numbers)


def _by_number(argnums: object, f: object, name: str) -> str:
    """How to say which argument is meant; or where the point goes, if that was given."""
    if isinstance(argnums, str):
        with Suppressed(TypeError, ValueError):  # a function that tells no signature
            names = [*signature(cast("Function", f)).parameters]
            if argnums in names:
                return f"Write argnums={names.index(argnums)} for {shown(argnums)}."
    way = "Write argnums=0 for the first argument."
    point = isinstance(argnums, (np.ndarray, float, list, dict))
    return f"{way} To differentiate at a point, write {name}(f)(point)." if point else way


def check_flags(name: str, f: object, **flags: object) -> list[bool]:
    """Options that are on or off, as truth values; anything else is refused."""
    return [
        value if type(value) is bool else flag(value, role, called(name, f))
        for role, value in flags.items()
    ]


def check_mode(mode: object, call: str) -> str:
    """The mode asked for."""
    return choice(mode, MODES, "mode", call, _CHEAPER)


def mode_of(strategy: object, keyword: str, call: str) -> str:
    """The mode that a strategy of torch's means; "auto" where there is none."""
    if strategy is None:
        return "auto"
    return STRATEGIES[choice(strategy, STRATEGIES, keyword, call, _CHEAPER)]


def check_chunk(chunk_size: object, call: str) -> int | None:
    """A positive int; None for "auto"."""
    if chunk_size is None or (isinstance(chunk_size, str) and chunk_size == "auto"):
        return None
    if is_int(chunk_size) and chunk_size > 0:
        return int(chunk_size)
    fact = f"chunk_size must be a positive int or 'auto', not {shown(chunk_size)}."
    raise failure(
        InputError, call, fact, "Leave it out: chunks are then as large as memory allows."
    )


def refuse_lower(lower: object, call: str) -> None:
    """A dense Hessian has all entries."""
    if flag(lower, "lower", call):
        fact = "lower=True is for sparse Hessians: dense ones have all entries."
        raise failure(InputError, call, fact, "Write sparse=True, or leave lower out.")


def check_device(device: object, call: str) -> str:
    """Refuse a device that fdiff does not know; calls find out whether it is present."""
    if isinstance(device, str) and device in DEVICES:
        return device
    fact = f"device must be one of {', '.join(map(repr, DEVICES))}, not {shown(device)}."
    way = "Leave device out to run on the CPU."
    word = ""
    with suppress(Exception):  # "cuda:1", torch.device("cuda"), "GPU": what others write
        word = str(device).strip().lower()
    if word.startswith(("cuda", "gpu")):
        number = word.partition(":")[2]
        way = "Write device='cuda'."
        if number.isdigit():
            fact += " fdiff runs on one GPU, that which is current at the first call."
            way = (
                f"Write device='cuda', and set CUDA_VISIBLE_DEVICES={int(number)} before Python"
                f" starts, or make GPU {int(number)} the current one before the first call."
            )
    elif word == "host":
        way = "Write device='cpu', or leave device out."
    raise failure(InputError, call, fact, way)


def refuse_position(inputs: object, f: object, name: str) -> None:
    """``jacobian(f, 0)`` is JAX's habit; here the second argument is the point."""
    numbers = inputs if isinstance(inputs, tuple) and inputs else (inputs,)
    if all(map(is_int, numbers)):
        kind = "an int" if is_int(inputs) else "a tuple of ints"
        fact = (
            f"the second argument is the point to differentiate at, and {shown(inputs)} is {kind}:"
            f" did you mean argnums={shown(inputs)}?"
        )
        way = f"Write {name}(f, argnums={shown(inputs)}), or give the point as floats."
        raise failure(InputError, called(name, f), fact, way)


def refuse_argnums(argnums: object, f: object, name: str) -> None:
    """With `inputs` given, all of them are differentiated."""
    if not is_int(argnums) or argnums != 0:
        fact = (
            f"argnums={shown(argnums)} has no meaning where inputs are given: all are"
            " differentiated."
        )
        way = f"Write {name}(f, argnums={shown(argnums)})(*inputs)."
        raise failure(InputError, called(name, f), fact, way)

"""`fdiff.lax` and its kin say what stands for them; completion shows public names alone."""

import re
import types

import pytest

import fdiff
from fdiff.functional import name_suggestions


@pytest.mark.parametrize("name", name_suggestions._WAYS)
def test_names_of_other_libraries_say_what_to_write(name):
    with pytest.raises(
        AttributeError, match=f"^module 'fdiff' has no attribute '{name}'. "
    ) as caught:
        getattr(fdiff, name)
    assert caught.value.name == name
    for path in re.findall(r"fdiff\.([\w.]+)", str(caught.value)):
        value = fdiff
        for part in path.split("."):
            value = getattr(value, part)


def test_other_names_are_plain_errors():
    with pytest.raises(AttributeError, match=r"^module 'fdiff' has no attribute 'grab'$"):
        fdiff.grab  # noqa: B018 - it is asked for


@pytest.mark.parametrize(
    "module", [fdiff, fdiff.autograd, fdiff.functional], ids=lambda m: m.__name__
)
def test_completion_shows_public_names_alone(module):
    names = dir(module)
    assert set(module.__all__) <= set(names)
    inner = [
        name
        for name in names
        if not name.startswith("__")
        and (name.startswith("_") or isinstance(getattr(module, name), types.ModuleType))
        and name not in MODULES.get(module.__name__, ())
    ]
    assert inner == []


MODULES = {
    "fdiff": ("autograd", "distributed", "errors", "functional", "optimize", "profiler"),
    "fdiff.autograd": (
        *("anomaly_mode", "forward_ad", "function", "functional", "grad_mode", "gradcheck"),
        *("graph", "profiler", "variable"),
    ),
}

"""The torch that fdiff is compared with is the one that is named in pyproject.toml."""

import tomllib
from pathlib import Path

import torch

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_this_torch_is_the_one_that_is_compared_with():
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {text for extra in extras.values() for text in extra if text.startswith("torch")}
    assert named == {f"torch=={torch.__version__.partition('+')[0]}"}

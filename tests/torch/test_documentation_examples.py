"""Examples of torch's documentation give in fdiff what they give in torch, and what it prints."""

import numpy as np
import pytest
import torch
from documentation_examples import EXAMPLES, Torch


def value(found):
    """What an expression gave, as an array or a plain value."""
    return np.asarray(found.detach()) if hasattr(found, "detach") else found


def run(text, shown, library):
    names = {"torch": library}
    exec(text, names)
    return {expression: value(eval(expression, names)) for expression in shown}


@pytest.mark.parametrize("title", EXAMPLES)
def test_example(title):
    text, shown = EXAMPLES[title]
    ours, theirs = run(text, shown, Torch), run(text, shown, torch)
    for expression, printed in shown.items():
        np.testing.assert_allclose(ours[expression], theirs[expression], rtol=1e-6)
        if printed is not None:
            np.testing.assert_allclose(ours[expression], printed, rtol=1e-6)

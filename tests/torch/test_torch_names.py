"""The page "Coming from torch.autograd" names what torch has."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
import make_torch_names


def test_every_name_of_torch_is_there():
    assert make_torch_names.missing_in_torch() == []


def test_every_public_name_of_the_modules_is_on_the_page():
    """What the modules of torch.autograd offer to users."""
    named = {row.torch for row in make_torch_names.rows()}
    autograd = torch.autograd
    wanted = {f"forward_ad.{name}" for name in autograd.forward_ad.__all__}
    wanted |= {f"functional.{name}" for name in autograd.functional.__all__}
    wanted |= {f"graph.{name}" for name in autograd.graph.__all__}
    wanted |= {f"grad_mode.{name}" for name in autograd.grad_mode.__all__}
    wanted |= {"Function", "Variable", "backward", "grad", "detect_anomaly", "set_detect_anomaly"}
    assert wanted - named == set()

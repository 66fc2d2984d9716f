"""Recorded arrays, and what else stands on the page of ``torch.autograd``, under torch's names."""

import importlib

from ..functional.anomaly_contexts import detect_anomaly, set_detect_anomaly
from ..functional.checkpoints import checkpoint
from ..process.forking import no_fork
from . import array_methods as array_methods  # enters the methods of the class
from . import checkpointing as checkpointing  # enters what `checkpoint` asks
from . import custom_rule_nodes as custom_rule_nodes  # enters what functions with rules ask
from . import graph as graph
from . import library_calls as library_calls  # enters what functions of SciPy ask
from . import operator_calls as operator_calls  # enters what operators ask
from . import recorded_checks as recorded_checks  # enters what `gradcheck` asks
from .engine import backward, grad
from .engine_settings import enforce_grad_layout_policy, set_multithreading_enabled
from .function import Function
from .modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .recorded_array import RecordedArray, tensor
from .variable import Variable

__all__ = [
    "Function",
    "RecordedArray",
    "Variable",
    "backward",
    "checkpoint",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "tensor",
]


def __getattr__(name: str) -> object:
    """`forward_ad`, which is imported when it is first asked for."""
    if name != "forward_ad":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with no_fork:
        return importlib.import_module(f"{__name__}.{name}")

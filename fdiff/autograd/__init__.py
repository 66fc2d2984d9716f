"""Recorded arrays, and the other names of ``torch.autograd``."""

from ..functional.call.anomaly_contexts import detect_anomaly, set_detect_anomaly
from ..functional.rules.checkpoints import checkpoint
from ..process.forking import imported
from . import anomaly_mode as anomaly_mode
from . import grad_mode as grad_mode
from . import graph as graph
from .arrays import array_methods as array_methods  # enters the methods of the class
from .arrays import torch_methods as torch_methods  # enters methods of torch's
from .arrays.recorded_array import RecordedArray, tensor
from .arrays.torch_spellings import missing_function
from .backward_passes.engine import backward, grad
from .backward_passes.engine_settings import enforce_grad_layout_policy, set_multithreading_enabled
from .calls import operator_calls as operator_calls  # enters what operators ask
from .calls import scipy_calls as scipy_calls  # enters what functions of SciPy ask
from .function import Function
from .functions import checkpointing as checkpointing  # enters what `checkpoint` asks
from .functions import (
    custom_rule_nodes as custom_rule_nodes,  # enters what functions with rules ask
)
from .functions import recorded_checks as recorded_checks  # enters what `gradcheck` asks
from .gradcheck import gradcheck, gradgradcheck
from .modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
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
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "tensor",
]


_LATE = frozenset(["forward_ad", "functional", "profiler"])


def __getattr__(name: str) -> object:
    """The modules that are imported when they are first asked for."""
    if name not in _LATE:
        raise missing_function(__name__, name)
    return imported(f".{name}", __name__)


def __dir__() -> list[str]:
    """The public names and the modules that torch has, without the other modules of the package."""
    modules = ("anomaly_mode", "function", "grad_mode", "graph", "variable")
    return [*__all__, *_LATE, *modules]

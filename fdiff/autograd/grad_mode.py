"""The names of ``torch.autograd.grad_mode``."""

from .backward_passes.engine_settings import enforce_grad_layout_policy, set_multithreading_enabled
from .modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

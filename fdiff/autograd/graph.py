"""The graph of recorded arrays, under the names of ``torch.autograd.graph``."""

from .backward_passes.hook_registration import register_multi_grad_hook
from .backward_passes.nodes import GradientEdge, get_gradient_edge
from .backward_passes.nodes import GraphNode as Node
from .saved_tensors_hooks import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    increment_version,
    save_on_cpu,
    save_on_disk,
    saved_tensors_hooks,
)

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "save_on_disk",
    "saved_tensors_hooks",
]

"""The names of ``torch.autograd.gradcheck``."""

from ..errors import GradcheckError
from ..functional.checking import gradcheck, gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

"""The names of ``torch.autograd.anomaly_mode``."""

from ..functional.call.anomaly_contexts import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]

"""Interpolation, differences, convolution: functions of sampled data."""

"""Discrete Fourier transforms, linear ops of complex numbers."""

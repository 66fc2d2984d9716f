"""Matrices, Fourier transforms and polynomials."""

"""Eigenvalues, singular values, QR and what is made of them: least squares, pseudo-inverse, norms."""

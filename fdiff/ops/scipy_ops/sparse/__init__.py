"""Functions and matrices of `scipy.sparse`."""

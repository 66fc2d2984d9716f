"""Products and routines of matrices as kernels."""

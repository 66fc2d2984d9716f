"""From loop programs to programs for a GPU: kernels as Numba source, and how they are launched."""

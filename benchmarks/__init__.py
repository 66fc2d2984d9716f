"""Speed and memory of fdiff beside JAX, torch, autograd, CasADi and hand-written Numba kernels.

`python -m benchmarks` runs all cases, `python -m benchmarks.targets` checks the figures we promise.
"""

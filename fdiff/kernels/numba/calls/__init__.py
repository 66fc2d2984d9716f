"""Kernels called from ``@njit`` code of the user's.

`function_type` tells Numba what a prepared function is, `call_text` writes the function that Numba
compiles for the calls of a `call_layout`, `records` are the kernels that this finds, for each size
one, and `intrinsics` is what the text is made of. `call_layout`, `call_text` and `records` import
nothing of Numba.
"""

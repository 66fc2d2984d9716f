"""From the text of a kernel to machine code, by LLVM alone.

A text is Python of a small subset (`statements`, `expressions`) with Numba's typing rules
(`types`); what it may call is listed in `words`. Numba itself takes some 1.1 ms a statement and
0.3 s to start; this takes 30 ms to start, and the time that LLVM needs.
"""

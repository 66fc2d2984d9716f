"""From the text of a kernel to machine code, by LLVM alone.

A text is a small subset of Python (`statements`, `expressions`) with Numba's typing rules
(`types`); `words` lists the functions that it may call. Numba itself takes some 1.1 ms a statement
and 0.3 s to start; this compiler takes 30 ms to start, and the time that LLVM needs.
"""

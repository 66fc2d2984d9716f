"""From the text of a kernel to machine code, by LLVM and nothing else.

The text is Python of a small kind (`statements`, `expressions`) with Numba's typing rules
(`types`), so that a person can read it. Numba's own way takes some 1.1 ms a statement and 0.3 s to
start; this takes 30 ms to start, and what LLVM needs.
"""

"""Loops and branches on the tape: `scan`, `fori_loop`, `while_loop`, `cond`, `switch`, `map`."""

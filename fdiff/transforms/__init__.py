"""Transforms of programs, tape to tape: derivatives, batching, simplification."""

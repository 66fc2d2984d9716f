"""Parallelisation for the threads of a CPU, and the cost model that decides on it."""

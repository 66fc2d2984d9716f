"""Lowering of scheduled effects to loop nests, statements and calls of routines."""

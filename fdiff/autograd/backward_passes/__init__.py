"""Backward passes: the graph, and how gradients are pulled back through it."""

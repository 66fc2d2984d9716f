"""Derivatives, batches and memory of loops and branches."""

"""Checks of derivatives against measured ones: what stands behind `gradcheck` and its like.

`checked_functions` says what a function under check can do: give values, push tangents forward and
pull cotangents back. `numerical_derivatives` measures derivatives from values alone.
`jacobian_comparison` compares whole Jacobians, `projection_comparison` their products with random
vectors, `derivative_laws` finds what no Jacobian shows, and `random_directions` goes to higher
orders.
"""

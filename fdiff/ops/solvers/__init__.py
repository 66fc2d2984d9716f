"""Functions of SciPy that call a function of the user: integrals, roots, minima, initial value problems.

SciPy's own solver runs at each call, on numbers, and calls a tape of the user's function. Its
derivative rule is made of other ops, so derivatives of any order follow.
"""

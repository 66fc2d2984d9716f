"""Functions of SciPy that call a function of the user: integrals, roots, minima, initial value problems.

The user's function is traced to a tape; SciPy's own solver runs at each call, on numbers, and calls the tape. The
derivative rule of each solver is made of other ops, so derivatives of any order follow.

- `quadrature.py`: ``quad`` and its relatives, by Leibniz's rule.
- `root_finding.py`, `minimisation.py`: by the implicit function theorem (`implicit_function_theorem.py`).
- `ode_derivatives.py`: ``solve_ivp`` and ``odeint``, by the adjoint of the steps taken (`runge_kutta.py`) or
  the variational equations.
- `*_signatures.py`: SciPy's signatures, from which a `SolverCall` is made.
"""

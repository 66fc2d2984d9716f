"""Functions of NumPy that call a function of the user."""

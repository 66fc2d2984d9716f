"""Special functions of SciPy: rules by the name of the ufunc."""

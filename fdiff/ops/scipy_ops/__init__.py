"""Operations of SciPy; each table is loaded with the module of SciPy that it is for."""

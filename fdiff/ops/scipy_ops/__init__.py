"""Operations of SciPy; each table is imported with the module of SciPy that it covers (`lazy_tables.py`)."""

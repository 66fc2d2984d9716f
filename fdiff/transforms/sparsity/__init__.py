"""Derivatives with mostly zero entries: diagonals by few sweeps, rows that nobody reads."""

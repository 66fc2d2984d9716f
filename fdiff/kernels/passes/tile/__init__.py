"""Passes over loop programs for the CPU: row tiles, staging, fission of long loops."""

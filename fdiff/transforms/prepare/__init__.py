"""Preparation of every traced tape, once, before any operator asks for a derivative."""

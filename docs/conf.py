"""Sphinx: the pages of this folder, and an API reference made of the docstrings (`make docs`)."""

import fdiff

project = "fdiff"
author = "The fdiff authors"
version = release = fdiff.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc"]
exclude_patterns = ["README.md", "errors.txt"]
html_theme = "alabaster"
html_theme_options = {"description": "Exact derivatives of plain NumPy functions"}

default_role = "literal"  # `name` in a docstring
autodoc_typehints = "none"  # shapes and dtypes stand in the docstrings
numpydoc_show_class_members = False
myst_heading_anchors = 3

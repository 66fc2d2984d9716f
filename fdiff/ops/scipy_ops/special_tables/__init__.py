"""Functions of `scipy.special`, by family."""

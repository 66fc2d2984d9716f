"""The functions that the text of a kernel may call: ``rt.name``."""

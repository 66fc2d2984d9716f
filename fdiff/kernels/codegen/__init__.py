"""From loop programs to the text of a kernel: Python that a person can read."""

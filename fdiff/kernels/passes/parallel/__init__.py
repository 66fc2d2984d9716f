"""Which loops several threads share, and what each thread needs of its own for that."""

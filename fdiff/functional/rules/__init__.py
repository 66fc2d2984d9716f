"""Functions with the rules of the user: `custom_vjp`, `primitive`, `checkpoint`."""

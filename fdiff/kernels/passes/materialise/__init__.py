"""Which nodes of a kernel graph have memory, and which are computed where they are used."""

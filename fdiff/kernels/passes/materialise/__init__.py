"""The nodes of a kernel graph that have memory; all others are computed where they are used."""

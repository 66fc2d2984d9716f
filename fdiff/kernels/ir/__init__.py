"""The intermediate representations of kernels: the graph of a tape, and loop programs."""

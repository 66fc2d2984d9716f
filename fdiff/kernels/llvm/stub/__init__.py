"""The entry stub: machine code by which Python calls kernels, and its description of calls."""

"""The passes from the graph of a kernel to its text; `pipeline` lists them."""

"""Loop nests as kernels: their mapping to threads, their text, their reductions and scans."""

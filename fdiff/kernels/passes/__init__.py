"""What is done to a kernel between its graph and its text; `pipeline` lists the passes."""

"""What is done to tapes before a kernel graph is made of them (`pipeline.TO_GRAPH`)."""

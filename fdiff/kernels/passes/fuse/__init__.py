"""From a kernel graph to loop nests: effects, their order, and which share a nest."""

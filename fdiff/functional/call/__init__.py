"""A call of an operator, from its arguments to its result."""

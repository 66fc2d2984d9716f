"""What answers for scipy.linalg."""

"""Status codes: what a kernel returns instead of 0 if it could not finish."""

OUT_OF_BOUNDS = 1  # an index lies outside of its array
SINGULAR = 2  # a matrix is singular
INDEFINITE = 3  # a matrix is not positive definite
ZERO_AT = 16  # plus k: the diagonal of a triangular matrix is zero at position k
OUT_OF_RANGE = -2  # an argument of sin, cos or tan is too large for `rt.sin` and its like

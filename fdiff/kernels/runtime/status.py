"""Status codes: what a kernel returns in place of 0 when it could not finish."""

OUTSIDE = 1  # an index lies outside of the array
SINGULAR = 2  # a matrix is singular
INDEFINITE = 3  # a matrix is not positive definite
ZERO_AT = 16  # a triangular matrix has a zero on its diagonal, at the place that is added
FAR = -2  # an argument of a sine, cosine or tangent is beyond what `rt.sin` serves

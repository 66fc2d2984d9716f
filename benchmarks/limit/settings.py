"""How the kernels are compiled: sums may be reordered, infinities and NaN keep their meaning."""

import numba

kernel = numba.njit(error_model="numpy", fastmath={"reassoc", "nsz", "contract"}, nogil=True)

# Mathematical functions round by adding large constants, which may not be reordered; a loop that
# calls one that is not inlined is not vectorised.
function = numba.njit(
    error_model="numpy", fastmath={"nsz", "contract"}, nogil=True, forceinline=True
)

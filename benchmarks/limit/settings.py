"""How the kernels are compiled: sums may be reordered, infinities and NaN keep their meaning."""

import numba

kernel = numba.njit(error_model="numpy", fastmath={"reassoc", "nsz", "contract"}, nogil=True)

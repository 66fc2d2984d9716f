"""Zernike polynomials by recurrences (no factorials) and a wavefront made of them."""
import numpy as np


def radial_table(nmax, rho):
    """R[n, m] for m = 0..n (Shakibaei and Paramesran, Optics Letters 38, 2487, 2013)."""
    R = np.zeros((nmax + 1, nmax + 2, len(rho)))
    R[0, 0] = 1.0
    for n in range(1, nmax + 1):
        for m in range(n, -1, -2):
            R[n, m] = rho * (R[n - 1, abs(m - 1)] + R[n - 1, m + 1])
            if n > 1:
                R[n, m] -= R[n - 2, m]
    return R


def kintner(n, m, rho):
    """One radial polynomial by Kintner's recurrence in n, scalar style."""
    values = np.empty(len(rho))
    for i in range(len(rho)):
        r = rho[i]
        before, now = 0.0, r**m
        k = m
        while k < n:
            k += 2
            if k == m + 2:
                before, now = now, ((m + 2) * r**2 - (m + 1)) * r**m
                continue
            k1 = (k + m) * (k - m) * (k - 2) / 2
            k2 = 2 * k * (k - 1) * (k - 2)
            k3 = -(m**2) * (k - 1) - k * (k - 1) * (k - 2)
            k4 = -k * (k + m - 2) * (k - m - 2) / 2
            before, now = now, ((k2 * r**2 + k3) * now + k4 * before) / k1
        values[i] = now
    return values


def wavefront(coefficients, x, y, nmax=5):
    rho = np.sqrt(x**2 + y**2)
    theta = np.arctan2(y, x)
    R = radial_table(nmax, rho)
    W = np.zeros_like(x)
    j = 0
    for n in range(nmax + 1):
        for m in range(-n, n + 1, 2):
            norm = np.sqrt(n + 1) if m == 0 else np.sqrt(2 * n + 2)
            if m < 0:
                W -= coefficients[j] * norm * R[n, -m] * np.sin(m * theta)
            else:
                W += coefficients[j] * norm * R[n, m] * np.cos(m * theta)
            j += 1
    W[rho > 1] = 0.0
    return W


def rms(coefficients, x, y):
    W = wavefront(coefficients, x, y)
    W -= W.mean()
    return np.sqrt(np.mean(W * W))

"""Kalman filter of a local linear trend, with missing observations."""
import numpy as np


def filter(log_noise, x0, y, dt):
    q, r = np.exp(log_noise[0]), np.exp(log_noise[1])
    F = np.eye(2)
    F[0, 1] = dt
    Q = np.zeros((2, 2))
    Q[0, 0] = q * dt**3 / 3
    Q[0, 1] = Q[1, 0] = q * dt**2 / 2
    Q[1, 1] = q * dt
    H = np.array([[1.0, 0.0]])

    x = x0.copy()
    P = 2.0 * np.eye(2)
    xs = np.empty((len(y), 2))
    Ps = np.empty((len(y), 2, 2))
    loglik = 0.0
    for t in range(len(y)):
        # predict
        x = F @ x
        P = F @ P @ F.T
        P += Q
        # update
        if not np.isnan(y[t]):
            v = y[t] - H @ x
            S = H @ P @ H.T + r
            K = P @ H.T @ np.linalg.inv(S)
            x += K @ v
            P -= K @ H @ P
            P[:] = 0.5 * (P + P.T)
            loglik -= 0.5 * (np.log(2 * np.pi) + np.log(S[0, 0]) + v[0]**2 / S[0, 0])
        xs[t] = x
        Ps[t] = P
    return xs, Ps, loglik


def log_likelihood(log_noise, x0, y, dt):
    return filter(log_noise, x0, y, dt)[2]


def rts_smoother(log_noise, x0, y, dt):
    xs, Ps, _ = filter(log_noise, x0, y, dt)
    F = np.eye(2)
    F[0, 1] = dt
    q = np.exp(log_noise[0])
    Q = q * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
    for t in range(len(y) - 2, -1, -1):
        Pp = F @ Ps[t] @ F.T + Q
        C = np.linalg.solve(Pp, F @ Ps[t]).T
        xs[t] += C @ (xs[t + 1] - F @ xs[t])
        Ps[t] += C @ (Ps[t + 1] - Pp) @ C.T
    return xs

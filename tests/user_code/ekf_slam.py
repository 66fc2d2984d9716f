"""EKF-SLAM with known correspondences: velocity motion model, range and bearing to landmarks."""
import numpy as np


def wrap(angle):
    while angle > np.pi:
        angle = angle - 2 * np.pi
    while angle < -np.pi:
        angle = angle + 2 * np.pi
    return angle


def predict(mu, Sigma, v, w, dt, R):
    theta = mu[2]
    mu = mu.copy()
    Sigma = Sigma.copy()
    G = np.eye(3)
    if abs(w) > 1e-6:
        mu[0] += -v / w * np.sin(theta) + v / w * np.sin(theta + w * dt)
        mu[1] += v / w * np.cos(theta) - v / w * np.cos(theta + w * dt)
        G[0, 2] = -v / w * np.cos(theta) + v / w * np.cos(theta + w * dt)
        G[1, 2] = -v / w * np.sin(theta) + v / w * np.sin(theta + w * dt)
    else:
        mu[0] += v * dt * np.cos(theta)
        mu[1] += v * dt * np.sin(theta)
        G[0, 2] = -v * dt * np.sin(theta)
        G[1, 2] = v * dt * np.cos(theta)
    mu[2] = wrap(theta + w * dt)
    Sigma[:3, :3] = G @ Sigma[:3, :3] @ G.T + R
    Sigma[:3, 3:] = G @ Sigma[:3, 3:]
    Sigma[3:, :3] = Sigma[:3, 3:].T
    return mu, Sigma


def update(mu, Sigma, seen, z, j, Q):
    k = 3 + 2 * j
    if not seen[j]:
        mu[k] = mu[0] + z[0] * np.cos(z[1] + mu[2])
        mu[k + 1] = mu[1] + z[0] * np.sin(z[1] + mu[2])
        seen[j] = True
    dx, dy = mu[k] - mu[0], mu[k + 1] - mu[1]
    q = dx**2 + dy**2
    r = np.sqrt(q)
    expected = np.array([r, wrap(np.arctan2(dy, dx) - mu[2])])
    H = np.zeros((2, len(mu)))
    H[:, :3] = np.array([[-r * dx, -r * dy, 0.0], [dy, -dx, -q]]) / q
    H[:, k:k + 2] = np.array([[r * dx, r * dy], [-dy, dx]]) / q
    S = H @ Sigma @ H.T + Q
    K = Sigma @ H.T @ np.linalg.inv(S)
    innovation = z - expected
    innovation[1] = wrap(innovation[1])
    mu += K @ innovation
    mu[2] = wrap(mu[2])
    Sigma -= K @ H @ Sigma


def run(start, noise, controls, observations, nlandmarks, dt=0.5):
    n = 3 + 2 * nlandmarks
    mu = np.zeros(n)
    mu[:3] = start
    Sigma = np.zeros((n, n))
    Sigma[3:, 3:] = np.diag(np.full(2 * nlandmarks, 10.0))
    R = np.diag(noise[:3])
    Q = np.diag(noise[3:])
    seen = np.zeros(nlandmarks, dtype=bool)
    for (v, w), zs in zip(controls, observations):
        mu, Sigma = predict(mu, Sigma, v, w, dt, R)
        for j, distance, bearing in zs:
            update(mu, Sigma, seen, np.array([distance, bearing]), int(j), Q)
    return mu, Sigma


def uncertainty(noise, start, controls, observations, nlandmarks):
    mu, Sigma = run(start, noise, controls, observations, nlandmarks)
    return np.trace(Sigma[:3, :3]) + mu[3]

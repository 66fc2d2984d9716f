"""Hidden Markov model with Gaussian emissions: forward and Viterbi passes in log space."""
import numpy as np


def logsumexp(a):
    m = np.max(a)
    if np.isinf(m):
        return m
    return m + np.log(np.sum(np.exp(a - m)))


def log_transitions(logits):
    logA = np.empty_like(logits)
    for i in range(logits.shape[0]):
        logA[i] = logits[i] - logsumexp(logits[i])
    return logA


def log_emissions(obs, means, log_sigma):
    T, K = len(obs), len(means)
    logB = np.zeros((T, K))
    for t in range(T):
        for k in range(K):
            z = (obs[t] - means[k]) / np.exp(log_sigma[k])
            logB[t, k] = -0.5 * z * z - log_sigma[k] - 0.5 * np.log(2 * np.pi)
    return logB


def forward(logits, means, log_sigma, obs):
    T, K = len(obs), len(means)
    logA = log_transitions(logits)
    logB = log_emissions(obs, means, log_sigma)
    alpha = np.zeros((T, K))
    alpha[0] = -np.log(K) + logB[0]
    for t in range(1, T):
        for j in range(K):
            alpha[t, j] = logsumexp(alpha[t - 1] + logA[:, j]) + logB[t, j]
    return alpha


def log_likelihood(logits, means, log_sigma, obs):
    return logsumexp(forward(logits, means, log_sigma, obs)[-1])


def starting_state(logits, means, log_sigma, obs):
    """Log likelihood when the chain must start in state 0: log(0) in the table."""
    T, K = len(obs), len(means)
    logA = log_transitions(logits)
    logB = log_emissions(obs, means, log_sigma)
    alpha = np.full((T, K), -np.inf)
    alpha[0, 0] = logB[0, 0]
    for t in range(1, T):
        m = alpha[t - 1].max()
        alpha[t] = m + np.log(np.exp(alpha[t - 1] - m) @ np.exp(logA)) + logB[t]
    return logsumexp(alpha[-1])


def viterbi_score(logits, means, log_sigma, obs):
    T, K = len(obs), len(means)
    logA = log_transitions(logits)
    logB = log_emissions(obs, means, log_sigma)
    delta = np.zeros((T, K))
    back = np.zeros((T, K), dtype=int)
    delta[0] = logB[0] - np.log(K)
    for t in range(1, T):
        for j in range(K):
            scores = delta[t - 1] + logA[:, j]
            back[t, j] = np.argmax(scores)
            delta[t, j] = scores[back[t, j]] + logB[t, j]
    path = np.zeros(T, dtype=int)
    path[-1] = np.argmax(delta[-1])
    for t in range(T - 2, -1, -1):
        path[t] = back[t + 1, path[t + 1]]
    score = 0.0
    for t in range(T):
        score += logB[t, path[t]]
        if t > 0:
            score += logA[path[t - 1], path[t]]
    return score - np.log(K)

"""How many threads kernels may have, set for one test: fdiff reads the environment once."""

from fdiff.process import environment


def ask_for_threads(monkeypatch, own, shared=None):
    """As if ``FDIFF_NUM_THREADS`` and ``OMP_NUM_THREADS`` had been so when fdiff was imported."""
    texts = [None if count is None else str(count) for count in (own, shared)]
    monkeypatch.setattr(environment, "threads_asked", tuple(texts))

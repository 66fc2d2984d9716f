"""A cluster of two worker processes on this machine, for all tests here."""

import logging

import pytest


@pytest.fixture(scope="session")
def client():
    """A client of Dask's; tests that need one are skipped where it is not installed."""
    pytest.importorskip("distributed.client")  # `distributed` alone may be this folder
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    )
    with cluster, distributed.Client(cluster) as client:
        yield client

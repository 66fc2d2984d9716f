"""A cluster of two worker processes on this machine, for all tests here."""

import logging

import pytest


@pytest.fixture(scope="session")
def session_client():
    """A client that is not the default one: other tests in this process have no cluster."""
    # `distributed` alone may be this folder
    pytest.importorskip("distributed.client", reason="needs dask.distributed, an extra")
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def client(session_client):
    """The current client of Dask's; tests that need one are skipped where it is not installed."""
    with session_client.as_current():
        yield session_client

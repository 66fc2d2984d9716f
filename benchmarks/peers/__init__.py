"""The peers: one record each. A peer's module gives the derivatives, in its own best way.

Every module defines `NAMESPACE` (what stands in for NumPy), `SPECIAL` (by name of a function of
SciPy, the module that has the peer's own), `constant` (its form of a constant argument) and the
derivatives `value_and_grad(f, count)`, `jacobian(f)`, `fresh_jacobian(f, data)`, `hessian(f)`,
`hvp(f)` and `vjp(f)`, which take float64 NumPy arrays and give them back, as a solver would call
them. `fresh_jacobian` meets a new lambda at each call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Peer:
    """Module in this package, title of the table's column, environment of its processes.

    `after`: only the first result counts, in a process that finds what this other peer kept.
    `calls`: the only derivatives it has, all if empty. `named`: it runs only where it is named.
    `plain`: it calls the function itself, and has no derivative.
    """

    name: str
    module: str
    title: str
    environment: Mapping[str, str] = field(default_factory=dict)
    after: str = ""
    calls: tuple[str, ...] = ()
    named: bool = False
    plain: bool = False


PEERS = {
    peer.name: peer
    for peer in [
        Peer("interpreted", "fdiff_peer", "fdiff interpreted", {"FDIFF_TIER": "interpret"}),
        Peer("numpy", "numpy_peer", "f in NumPy", plain=True),
        Peer("limit", "limit_peer", "hand-written"),
        Peer("fdiff", "fdiff_peer", "fdiff compiled", {"FDIFF_TIER": "compile"}),
        Peer("disk", "fdiff_peer", "fdiff from disk", {"FDIFF_TIER": "compile"}, after="fdiff"),
        Peer("evaluated", "fdiff_peer", "fdiff evaluated", {"FDIFF_TIER": "evaluate"}),
        Peer(
            "evaluated again",
            "fdiff_peer",
            "evaluated from disk",
            {"FDIFF_TIER": "evaluate"},
            after="evaluated",
        ),
        Peer("jax", "jax_peer", "JAX"),
        Peer("torch", "torch_peer", "torch"),
        Peer(
            "inductor",
            "inductor_peer",
            "torch.compile",
            calls=("value_and_grad", "vjp"),
            named=True,
        ),
        Peer("autograd", "autograd_peer", "autograd"),
        Peer("casadi", "casadi_peer", "CasADi"),
    ]
}

# One thread each: what is compared is the code, not the number of cores.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "1",
}

"""The cases: one record each, the only place that knows them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np

from .variants import jax_lstm

HERE = Path(__file__).parent
USER_CODE = HERE.parent / "tests" / "user_code"
ADBENCH = HERE.parent / "tests" / "data" / "adbench"

Pick = Callable[[ModuleType], Callable[..., object]]
Arguments = tuple[tuple[np.ndarray, ...], tuple[object, ...]]

NO_ARRAYS = "CasADi has matrices, but no arrays of more dimensions and no fancy indexing"
NOT_BY_HAND = "nobody has written this derivative by hand"


@dataclass(frozen=True)
class Case:
    """One function, one derivative of it, one set of arguments.

    `call` names the derivative (a function that every peer has), `kernel` the function in
    `limit.KERNELS`. `pick` takes the function from the module `file`. `arguments` gives the
    differentiated arguments (for products with a vector, the point and the vector) and the constant
    ones. `variants` replaces `pick` for a peer whose syntax forces it; `skip` says why a peer has
    no part in the case.
    """

    name: str
    call: str
    kernel: str
    file: Path
    pick: Pick
    arguments: Callable[[], Arguments]
    variants: Mapping[str, Pick] = field(default_factory=dict)
    skip: Mapping[str, str] = field(default_factory=dict)


def functions(file: Path, namespace: object) -> ModuleType:
    """The module in `file`, with `namespace` in the place of NumPy."""
    spec = importlib.util.spec_from_file_location(f"benchmarked_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.np = namespace  # type: ignore[attr-defined]
    return module


def point(n: int) -> np.ndarray:
    """`n` entries around 1, none of them special."""
    return 1.0 + 0.5 * np.sin(1.0 + np.arange(n))


def one(n: int) -> Callable[[], Arguments]:
    return lambda: ((point(n),), ())


def with_vector(n: int) -> Callable[[], Arguments]:
    return lambda: ((point(n), np.cos(np.arange(n, dtype=float))), ())


def _problem(name: str, call: str, function: str, arguments: Callable[[], Arguments]) -> Case:
    return Case(
        name, call, function, HERE / "problems.py", lambda m: getattr(m, function), arguments
    )


def _nist(name: str, call: str) -> Case:
    """The Jacobian of NIST's model with respect to its parameters, at the certified ones."""

    def arguments() -> Arguments:
        data = functions(USER_CODE / "nist.py", np).read(name)
        return (data["b"],), (data["x"],)

    file, fresh = USER_CODE / "nist.py", " fresh lambda" if call == "fresh_jacobian" else ""
    return Case(
        f"Jacobian NIST {name}{fresh}", call, name, file, lambda m: m.MODELS[name], arguments
    )


def _loaders() -> ModuleType:
    return functions(USER_CODE / "loaders.py", np)


def _mixture() -> Arguments:
    d = _loaders().read_gmm(ADBENCH / "gmm" / "1k" / "gmm_d10_K25.txt")
    return (d["alphas"], d["means"], d["icf"]), (d["x"], d["gamma"], d["m"])


def _bundle() -> Arguments:
    d = _loaders().read_ba(ADBENCH / "ba" / "ba1_n49_m7776_p31843.txt")
    n, m, p = len(d["cams"]), len(d["X"]), len(d["w"])
    z = np.concatenate([d["cams"].ravel(), d["X"].ravel(), d["w"]])
    return (z, np.cos(np.arange(3.0 * p))), (n, m, p, d["obs"], d["feats"])


def _lstm() -> Arguments:
    d = _loaders().read_lstm(ADBENCH / "lstm" / "lstm_l2_c1024.txt")
    return (d["main"], d["extra"]), (d["state"], d["seq"])


INTERPRETED = "a tape this long is never compiled unasked: see the interpreted column"

CASES = {
    case.name: case
    for case in [
        _problem("value+grad sum(x²) n=3", "value_and_grad", "sum_of_squares", one(3)),
        _problem("value+grad Rosenbrock n=10", "value_and_grad", "rosenbrock", one(10)),
        _problem("value+grad Rosenbrock n=1,000", "value_and_grad", "rosenbrock", one(1000)),
        _problem("value+grad Rosenbrock n=100,000", "value_and_grad", "rosenbrock", one(100_000)),
        _problem("value+grad chain n=1,000", "value_and_grad", "chain", one(1000)),
        _problem("value+grad chain n=1,000,000", "value_and_grad", "chain", one(1_000_000)),
        _nist("MGH10", "jacobian"),
        _nist("Hahn1", "jacobian"),
        _nist("Gauss1", "jacobian"),
        _nist("MGH10", "fresh_jacobian"),
        _nist("Hahn1", "fresh_jacobian"),
        _problem("Hessian Rosenbrock n=10", "hessian", "rosenbrock", one(10)),
        _problem("Hessian Rosenbrock n=100", "hessian", "rosenbrock", one(100)),
        _problem("HVP Rosenbrock n=1,000", "hvp", "rosenbrock", with_vector(1000)),
        Case(
            "value+grad GMM 1k d=10 K=25",
            "value_and_grad",
            "gmm",
            USER_CODE / "gmm.py",
            lambda m: m.objective,
            _mixture,
            skip={"casadi": NO_ARRAYS},
        ),
        Case(
            "VJP bundle adjustment p=31,843",
            "vjp",
            "bundle",
            USER_CODE / "ba.py",
            lambda m: m.residual_flat,
            _bundle,
            skip={"casadi": NO_ARRAYS},
        ),
        Case(
            "value+grad LSTM l=2 c=1024",
            "value_and_grad",
            "lstm",
            USER_CODE / "lstm.py",
            lambda m: m.objective,
            _lstm,
            variants={"jax": jax_lstm},
            skip={
                "casadi": NO_ARRAYS,
                "limit": NOT_BY_HAND,
                "fdiff": INTERPRETED,
                "disk": INTERPRETED,
            },
        ),
    ]
}

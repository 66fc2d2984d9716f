"""AC optimal power flow as a user wrote it, as a problem for solvers."""

from pathlib import Path

from scipy.optimize import Bounds
from user_code import acopf

from fdiff.optimize import Problem

DATA = Path(__file__).parents[1] / "data" / "opf"
# Of PGLib-OPF, BASELINE.md, and half a unit of the last digit that is known.
OPTIMA = {
    "case14_ieee": (2178.0804, 2e-3),
    "case30_ieee": (8208.5, 0.05),
    "case57_ieee": (37589.0, 0.5),
    "case118_ieee": (97213.6069, 1e-2),
}


def power_flow(name):
    """The problem and its start."""
    data = acopf.load(str(DATA / f"pglib_opf_{name}.m"))
    low, high, lower, upper = acopf.bounds(data)
    problem = Problem(
        acopf.objective,
        acopf.constraints,
        bounds=Bounds(low, high),
        lower=lower,
        upper=upper,
        args=(data,),
    )
    return problem, acopf.start(data)

"""AC optimal power flow as a user wrote it, as a problem for solvers."""

from pathlib import Path

from scipy.optimize import Bounds
from user_code import acopf

from fdiff.optimize import Problem

DATA = Path(__file__).parents[1] / "data" / "opf"
OPTIMA = {"case14_ieee": 2178.0804, "case118_ieee": 97213.6069}  # PGLib-OPF, BASELINE.md


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

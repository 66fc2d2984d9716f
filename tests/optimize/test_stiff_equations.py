"""Stiff equations of the test set for IVP solvers, by BDF and Radau with sparse Jacobians.

Models and end values: F. Mazzia and C. Magherini, "Test Set for Initial Value Problem Solvers",
release 2.4, University of Bari 2008.
"""

import os
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fdiff


class Problem(NamedTuple):
    slope: Any
    start: Any
    time: float
    end: Any
    scale: Any = 1e-6  # the absolute error is this times the relative one
    accuracy: float = 2e-4  # of the end values


def hires(t, y):
    """Eight substances: how light makes plants grow."""
    fast = 280.0 * y[5] * y[7]
    return np.array([
        -1.71 * y[0] + 0.43 * y[1] + 8.32 * y[2] + 0.0007,
        1.71 * y[0] - 8.75 * y[1],
        -10.03 * y[2] + 0.43 * y[3] + 0.035 * y[4],
        8.32 * y[1] + 1.71 * y[2] - 1.12 * y[3],
        -1.745 * y[4] + 0.43 * y[5] + 0.43 * y[6],
        -fast + 0.69 * y[3] + 1.71 * y[4] - 0.43 * y[5] + 0.69 * y[6],
        fast - 1.81 * y[6],
        -fast + 1.81 * y[6],
    ])  # fmt: skip


def robertson(t, y):
    first, back, second = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return np.array([back - first, first - back - second, second])


def oregonator(t, y):
    return np.array([
        77.27 * (y[1] + y[0] * (1.0 - 8.375e-6 * y[0] - y[1])),
        (y[2] - (1.0 + y[0]) * y[1]) / 77.27,
        0.161 * (y[0] - y[2]),
    ])  # fmt: skip


def van_der_pol(t, y):
    return np.array([y[1], ((1.0 - y[0] ** 2) * y[1] - y[0]) / 1e-6])


RATES = np.array([
    0.35, 26.6, 1.23e4, 8.6e-4, 8.2e-4, 1.5e4, 1.3e-4, 2.4e4, 1.65e4, 9e3, 0.022, 1.2e4, 1.88,
    1.63e4, 4.8e6, 3.5e-4, 0.0175, 1e8, 4.44e11, 1240.0, 2.1, 5.78, 0.0474, 1780.0, 3.12,
])  # fmt: skip
# Reactants of each of 25 reactions, and what they consume and give.
REACTANTS = [
    [0], [1, 3], [4, 1], [6], [6], [6, 5], [8], [8, 5], [10, 1], [10, 0], [12], [9, 1], [13],
    [0, 5], [2], [3], [3], [15], [15], [16, 5], [18], [18], [0, 3], [18, 0], [19],
]  # fmt: skip
GIVES = {
    0: "-1 -10 -14 -23 -24 +2 +3 +9 +11 +12 +22 +25", 1: "-2 -3 -9 -12 +1 +21",
    2: "-15 +1 +17 +19 +22", 3: "-2 -16 -17 -23 +15", 4: "-3 +4 +4 +6 +7 +13 +20",
    5: "-6 -8 -14 -20 +3 +18 +18", 6: "-4 -5 -6 +13", 7: "+4 +5 +6 +7", 8: "-7 -8",
    9: "-12 +7 +9", 10: "-9 -10 +8 +11", 11: "+9", 12: "-11 +10", 13: "-13 +12", 14: "+14",
    15: "-18 -19 +16", 16: "-20", 17: "+20", 18: "-21 -22 -24 +23 +25", 19: "-25 +24",
}  # fmt: skip
BALANCE = np.zeros((20, 25))
for _substance, _signs in GIVES.items():
    for _term in _signs.split():
        BALANCE[_substance, int(_term[1:]) - 1] += float(_term[0] + "1")


def pollution(t, y):
    """Twenty substances of the air over the Netherlands, and 25 reactions."""
    rates = [k * np.prod(y[at]) for k, at in zip(RATES, REACTANTS, strict=True)]
    return BALANCE @ np.array(rates)


C, CS, CP, R, RP = 1.6e-8, 2e-12, 1e-8, 25e3, 50.0
LH, LS1, LS2, LS3, RG1, RG2, RG3, RI, RC = 4.45, 0.002, 5e-4, 5e-4, 36.3, 17.3, 17.3, 50.0, 600.0


def ring_modulator(t, y):
    """A circuit of four diodes that mixes two signals."""
    low, high = 0.5 * np.sin(2e3 * np.pi * t), 2.0 * np.sin(2e4 * np.pi * t)
    u = np.array([
        y[2] - y[4] - y[6] - high,
        -y[3] + y[5] - y[6] - high,
        y[3] + y[4] + y[6] + high,
        -y[2] - y[5] + y[6] + high,
    ])  # fmt: skip
    q1, q2, q3, q4 = 40.67286402e-9 * (np.exp(17.7493332 * u) - 1.0)
    return np.array([
        (y[7] - 0.5 * y[9] + 0.5 * y[10] + y[13] - y[0] / R) / C,
        (y[8] - 0.5 * y[11] + 0.5 * y[12] + y[14] - y[1] / R) / C,
        (y[9] - q1 + q4) / CS,
        (-y[10] + q2 - q3) / CS,
        (y[11] + q1 - q3) / CS,
        (-y[12] - q2 + q4) / CS,
        (-y[6] / RP + q1 + q2 - q3 - q4) / CP,
        -y[0] / LH,
        -y[1] / LH,
        (0.5 * y[0] - y[2] - RG2 * y[9]) / LS2,
        (-0.5 * y[0] + y[3] - RG3 * y[10]) / LS3,
        (0.5 * y[1] - y[4] - RG2 * y[11]) / LS2,
        (-0.5 * y[1] + y[5] - RG3 * y[12]) / LS3,
        (-y[0] + low - (RI + RG1) * y[13]) / LS1,
        (-y[1] - (RC + RG1) * y[14]) / LS1,
    ])  # fmt: skip


POLLUTED = np.zeros(20)
POLLUTED[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007
PROBLEMS = {
    "hires": Problem(hires, [1.0, 0, 0, 0, 0, 0, 0, 0.0057], 321.8122, [
        0.7371312573325668e-3, 0.1442485726316185e-3, 0.5888729740967575e-4,
        0.1175651343283149e-2, 0.2386356198831331e-2, 0.6238968252742796e-2,
        0.2849998395185769e-2, 0.2850001604814231e-2,
    ]),
    "robertson": Problem(robertson, [1.0, 0.0, 0.0], 1e11, [
        0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050,
    ], [1e-8, 1e-14, 1.0]),
    "oregonator": Problem(oregonator, [1.0, 2.0, 3.0], 360.0, [
        0.1000814870318523e1, 0.1228178521549917e4, 0.1320554942846706e3,
    ]),
    "van der pol": Problem(van_der_pol, [2.0, 0.0], 2.0, [
        0.1706167732170483e1, -0.8928097010247975,
    ]),
    "pollution": Problem(pollution, POLLUTED, 60.0, [
        0.5646255480022769e-1, 0.1342484130422339, 0.4139734331099427e-8, 0.5523140207484359e-2,
        0.2018977262302196e-6, 0.1464541863493966e-6, 0.7784249118997964e-1, 0.3245075353396018,
        0.7494013383880406e-2, 0.1622293157301561e-7, 0.1135863833257075e-7, 0.2230505975721359e-2,
        0.2087162882798630e-3, 0.1396921016840158e-4, 0.8964884856898295e-2, 0.4352846369330103e-17,
        0.6899219696263405e-2, 0.1007803037365946e-3, 0.1772146513969984e-5, 0.5682943292316392e-4,
    ]),
    "ring modulator": Problem(ring_modulator, np.zeros(15), 1e-3, [
        -0.2339057358486745e-1, -0.7367485485540825e-2, 0.2582956709291169, -0.4064465721283450,
        -0.4039455665149794, 0.2607966765422943, 0.1106761861269975, 0.2939904342435596e-6,
        -0.2840029933642329e-7, 0.7267198267264553e-3, 0.7929487196960840e-3,
        -0.7255283495698965e-3, -0.7941401968526521e-3, 0.7088495416976114e-4,
        0.2390059075236570e-4,
    ], 1e-6, 1e-2),  # errors of BDF add up in its steps
}  # fmt: skip


# The ring modulator takes 100,000 steps: half a minute.
WHOLE = [name for name in PROBLEMS if name != "ring modulator" or "FDIFF_LONG_TESTS" in os.environ]


@pytest.mark.parametrize("method", ["BDF", "Radau"])
@pytest.mark.parametrize("name", WHOLE)
def test_end_values_of_the_test_set(name, method):
    slope, start, time, end, scale, accuracy = PROBLEMS[name]
    jacobian = fdiff.jacobian(slope, argnums=1, sparse="csc")
    result = solve_ivp(fdiff.jit(slope), (0.0, time), np.array(start, float), method=method,
                       jac=jacobian, rtol=1e-6, atol=1e-6 * np.asarray(scale))  # fmt: skip
    assert result.success
    np.testing.assert_allclose(result.y[:, -1], end, rtol=accuracy)


def test_the_jacobian_of_the_ring_modulator_is_that_of_complex_steps():
    y, (slope, *_) = np.random.default_rng(0).normal(size=15) * 0.1, PROBLEMS["ring modulator"]
    steps = [np.imag(slope(1e-4, y + 1e-30j * unit)) / 1e-30 for unit in np.eye(15)]
    found = fdiff.jacobian(slope, argnums=1, sparse="csc")(1e-4, y)
    assert found.nnz == np.count_nonzero(steps)
    np.testing.assert_allclose(found.toarray(), np.transpose(steps), rtol=1e-12)

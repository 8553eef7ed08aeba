"""Student's t distribution, without scipy."""

from __future__ import annotations

from math import atan, cos, pi, sin, sqrt


def t_probability(t: float, freedom: int) -> float:
    """Return the probability that a variable with Student's t distribution lies between -t and t.

    `freedom` is the number of degrees of freedom. The sum is exact (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).
    """
    angle = atan(t / sqrt(freedom))
    odd = freedom % 2
    term, total = (cos(angle) if odd else 1.0), 0.0
    for k in range(odd, freedom - 1, 2):
        total += term
        term *= cos(angle) ** 2 * (k + 1) / (k + 2)
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total


def t_quantile(probability: float, freedom: int) -> float:
    """Return the t for which `t_probability` is the given probability, from 0 to less than 1, by bisection."""
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < probability:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if t_probability(middle, freedom) < probability else (low, middle)
    return high

"""Validation of latency tables against measured networks, and their linear correction."""

from __future__ import annotations

import numpy as np
import pytest

import archir
from archir.costs.latencies.measurement import MeasuredNetwork, Validation, fit_line, validate
from archir.costs.latencies.timing import Timing
from archir.diagnostics.errors import ArchError
from archir.utils.ranks import spearman
from tests.latencies import QUICK, SMALL, FakeBench, filled, validation


def test_rank_correlation_matches_known_values() -> None:
    x = np.array([1.0, 2, 3, 4, 5])
    assert spearman(x, x**3) == pytest.approx(1)
    assert spearman(x, -x) == pytest.approx(-1)
    assert spearman(x, np.array([1.0, 3, 2, 4, 5])) == pytest.approx(0.9)  # 1 - 6 * 2 / (5 * 24)
    assert spearman(np.array([1.0, 2, 2, 3]), np.array([1.0, 3, 2, 4])) == pytest.approx(0.9486832980505138)
    assert spearman(x, np.ones(5)) is None
    assert spearman(x[:1], x[:1]) is None


def test_least_squares_line_matches_known_values() -> None:
    x = np.array([1.0, 2.0, 4.0])
    assert fit_line(x, 3 * x + 5) == pytest.approx((3, 5))
    assert fit_line(x, np.array([1.0, 3.0, 2.0])) == pytest.approx((3 / 14, 1.5))
    assert fit_line(np.ones(3), x) is None


def test_errors_before_and_after_the_correction() -> None:
    exact = validation([(x, 2 * x + 30) for x in (10.0, 20, 40)])
    assert exact.error == pytest.approx((40 / 50 + 50 / 70 + 70 / 110) / 3)
    assert exact.corrected_error == pytest.approx(0, abs=1e-12)
    assert exact.rank_correlation == pytest.approx(1)
    line = exact.correction()
    assert (line.scale, line.offset, line.networks) == (pytest.approx(2), pytest.approx(30), 3)


def test_corrected_error_is_leave_one_out() -> None:
    found = validation([(1, 1), (2, 2), (3, 6)])
    lines = (22 / 13, 19 / 10, 1)  # through the origin, where the intercept of the line would be negative
    assert found.corrected_error == pytest.approx((abs(lines[0] - 1) + abs(2 * lines[1] - 2) / 2 + 3 / 6) / 3)


def test_calibration_line_is_never_negative() -> None:
    """Times that grow faster than sums have a least-squares line that starts below zero."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        sums = rng.uniform(10, 1000, 6)
        found = validation(zip(sums.tolist(), (sums**1.5 + rng.uniform(0, 100, 6)).tolist(), strict=True)).correction()
        assert found.scale > 0
        assert found.offset >= 0


@pytest.mark.parametrize("pairs", [[(1, 1)], [(1, 1), (1, 2)], [(1, 3), (2, 2), (3, 1)], []])
def test_rejects_calibration_without_rising_line(pairs: list[tuple[float, float]]) -> None:
    with pytest.raises(ArchError, match="A1504"):
        validation(pairs).correction()


def test_verdict_is_about_the_predictions_that_bounds_use() -> None:
    """The third factor is the correction that the table has already."""
    sums = [float(x) for x in range(100, 112)]
    for scale, stored, fit in ((1, 1, True), (3, 1, False), (3, 3, True), (1, 3, False)):
        noisy = [(stored * x, scale * x + 0.1 * (-1) ** i, x) for i, x in enumerate(sums)]
        found = Validation(tuple(MeasuredNetwork(a, Timing(y, 0, 3), x) for a, y, x in noisy))
        assert found.held_out is not None
        assert (found.held_out.weaknesses == []) is fit
        assert found.held_out_calibrated is not None
        assert found.held_out_calibrated.weaknesses == []
    few = Validation(found.networks[:4])
    assert (few.held_out, few.held_out_calibrated) == (None, None)


def test_two_networks_have_no_corrected_error() -> None:
    assert validation([(1, 1), (2, 2)]).corrected_error is None


def test_validation_compares_measured_networks_with_table() -> None:
    space = archir.loads(SMALL["depth"])
    table = filled(FakeBench(), space)
    networks = [space.specialize(architecture) for architecture in space.enumerate()]
    found = validate(table, networks, FakeBench(), effort=QUICK)
    assert all(one.predicted == one.measured.mean for one in found.networks)
    assert found.error == 0
    assert found.rank_correlation == pytest.approx(1)
    with pytest.raises(ArchError, match="A1503"):
        validate(table.model_copy(update={"threads": 2}), networks, FakeBench(), effort=QUICK)
    slower = [(network, 0.5 * one.measured.mean) for network, one in zip(networks, found.networks, strict=True)]
    converted = validate(table, networks[:3], FakeBench(), anchors=slower, effort=QUICK)
    assert converted.speed == 0.5
    assert [one.measured.mean for one in converted.networks] == [nanoseconds for _, nanoseconds in slower[:3]]
    del table.entries["gelu(f32[4, 6, 6], approximate=false)"]
    with pytest.raises(ArchError, match=r"A1502.*gelu"):
        validate(table, networks, FakeBench(), effort=QUICK)

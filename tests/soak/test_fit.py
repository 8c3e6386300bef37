"""What the fit says of made-up curves: of an hour with a sample each minute."""

from math import sin
from random import Random

import pytest

from tests.soak.fit import SAMPLES_MIN, Verdict, slope_of, verdict_of

MINUTES = range(60)
TIMES_H = [minute / 60 for minute in MINUTES]
START_KB = 80_000.0
BOUND_KB = START_KB / 10
SEEDS = range(20)


def noise(seed: int, size_kb: float) -> list[float]:
    rng = Random(seed)
    return [rng.gauss(0, size_kb) for _ in MINUTES]


def said(values: list[float], bound: float = BOUND_KB) -> Verdict:
    return verdict_of(TIMES_H, values, bound)[0]


def test_a_line_has_its_slope() -> None:
    slope = slope_of(TIMES_H, [START_KB + 600 * at_h for at_h in TIMES_H])
    assert slope.per_h == pytest.approx(600)
    assert slope.low_per_h == pytest.approx(600)
    assert slope.high_per_h == pytest.approx(600)


def test_what_never_changes_is_flat_to_the_last_piece() -> None:
    assert verdict_of(TIMES_H, [12.0] * 60, 0.0)[0] is Verdict.FLAT


def test_two_moments_of_more_do_not_count() -> None:
    values = [12.0] * 60
    values[20], values[45] = 13.0, 40.0
    assert said(values, 1.0) is Verdict.FLAT


@pytest.mark.parametrize("last", [35, 40, 45, 50, 52])
def test_one_late_step_is_not_taken_for_flat(last: int) -> None:
    assert said([20.0 + (minute > last) for minute in MINUTES], 1.0) is Verdict.UNPROVED


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_does_not_grow(seed: int) -> None:
    assert said([START_KB + each for each in noise(seed, 100)]) is Verdict.FLAT


@pytest.mark.parametrize("seed", SEEDS)
def test_too_much_noise_proves_nothing(seed: int) -> None:
    assert said([START_KB + each for each in noise(seed, 5_000)]) is Verdict.UNPROVED


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_leak_grows(seed: int) -> None:
    leak_per_h = 1_000
    values = [START_KB + leak_per_h * at_h + each for at_h, each in zip(TIMES_H, noise(seed, 100), strict=True)]
    verdict, slope = verdict_of(TIMES_H, values, BOUND_KB)
    assert verdict is Verdict.GROWS
    assert slope.low_per_h < leak_per_h < slope.high_per_h


def test_a_descriptor_an_hour_grows() -> None:
    assert said([20.0 + minute // 10 for minute in MINUTES], 1.0) is Verdict.GROWS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_at_the_start_levels_off(seed: int) -> None:
    values = [START_KB + (minute >= 12) * 3_000 + each for minute, each in zip(MINUTES, noise(seed, 50), strict=True)]
    assert said(values) in (Verdict.LEVELS_OFF, Verdict.FLAT)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_fills_up_levels_off(seed: int) -> None:
    values = [START_KB + 200 * min(minute, 25) + each for minute, each in zip(MINUTES, noise(seed, 50), strict=True)]
    assert said(values) is Verdict.LEVELS_OFF


@pytest.mark.parametrize("period", [3, 5, 7])
def test_the_sawtooth_of_the_collector_is_flat(period: int) -> None:
    assert said([START_KB + 60 * (minute % period) for minute in MINUTES]) is Verdict.FLAT


@pytest.mark.parametrize("period", [11, 13, 17])
def test_a_few_long_teeth_are_no_growth(period: int) -> None:
    assert said([START_KB + 60 * (minute % period) for minute in MINUTES]) is not Verdict.GROWS


@pytest.mark.parametrize("period", [5, 7])
def test_a_leak_below_a_sawtooth_grows(period: int) -> None:
    values = [START_KB + 60 * (minute % period) + 2_000 * at_h for minute, at_h in zip(MINUTES, TIMES_H, strict=True)]
    assert said(values) is Verdict.GROWS


def test_slow_waves_are_not_taken_for_independent_samples() -> None:
    """A wave that is longer than the run rises within it: 60 samples of it are not 60 proofs."""
    values = [START_KB + 2_000 * sin(minute / 25) for minute in MINUTES]
    flat, slope = verdict_of(TIMES_H, values, BOUND_KB)
    assert flat is not Verdict.FLAT
    assert slope.high_per_h - slope.low_per_h > 1_000


def test_few_samples_prove_nothing() -> None:
    times_h = TIMES_H[: 2 * SAMPLES_MIN - 1]
    assert verdict_of(times_h, [1.0] * len(times_h), 1.0)[0] is Verdict.UNPROVED
    with pytest.raises(ValueError, match="two samples"):
        slope_of([1.0], [1.0])

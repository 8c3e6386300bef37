"""Service level objectives in the configuration file, and what is told of mistakes in them."""

from dataclasses import replace
from pathlib import Path

import pytest

from rsmq_tui.monitor.slo import AGE, ANSWERING, STALLED, Objective
from rsmq_tui.protocol.kinds import LIST, RSMQ
from tests.profiles.test_config import read, refusal

PROFILE = '[profiles.production]\nhost = "redis.example"\n'


def test_a_profile_has_its_own_objectives_or_those_of_the_defaults(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        '[[defaults.slo]]\ntarget = "answering"\nobjective = 99.9\n'
        f"{PROFILE}"
        '[[profiles.production.slo]]\ntarget = "Age p99 <5m"\nobjective = 99\nqueues = ["orders", "mail-*"]\n'
        'window = "7d"\n'
        '[[profiles.production.slo]]\ntarget = "stalled < 2m"\nobjective = 99.5\n'
        '[profiles.staging]\nhost = "staging.example"\n',
    )
    usual = (Objective(ANSWERING, 99.9),)
    assert (config.watched.slo, config.profiles["staging"].slo) == (usual, usual)
    age, stalled = config.profiles["production"].slo
    assert age == Objective(AGE, 99.0, 300_000, ("orders", "mail-*"), 7 * 86_400_000)
    assert stalled == Objective(STALLED, 99.5, 120_000)
    assert [age.covers(name, RSMQ) for name in ("orders", "mail-eu", "orders2")] == [True, True, False]
    assert stalled.covers("any", RSMQ)
    assert replace(age, queues=("list:queue:mail",)).covers("queue:mail", LIST)
    assert [one.target for one in (*usual, age, stalled)] == ["answering", "age p99 < 5m", "stalled < 2m"]
    assert age.budget == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("slo = 1", "3: slo must be tables, one for each objective: [[profiles.production.slo]]"),
        ("[[profiles.production.slo]]\nobjective = 99", '3: an objective needs target, such as target = "answering"'),
        (
            '[[profiles.production.slo]]\ntarget = "answering"',
            "3: an objective needs objective, such as objective = 99",
        ),
        (
            '[[profiles.production.slo]]\ntarget = "age < 5m"\nobjective = 99',
            '4: target must be "answering", "age p99 < 5m" or "stalled < 2m"',
        ),
        (
            '[[profiles.production.slo]]\ntarget = "stalled < soon"\nobjective = 99',
            '4: target must be "answering", "age p99 < 5m" or "stalled < 2m"',
        ),
        (
            '[[profiles.production.slo]]\ntarget = "answering"\nobjective = 100',
            "5: objective must be a percentage from 50 to 99.9999",
        ),
        (
            '[[profiles.production.slo]]\ntarget = "answering"\nobjective = 99\nqueues = ["orders"]',
            '6: queues cannot be combined with target = "answering": it has none',
        ),
        (
            '[[profiles.production.slo]]\ntarget = "answering"\nobjective = 99\nwindows = "7d"',
            "6: unknown key windows in [profiles.production.slo]; did you mean window?",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, sentence: str, words: str) -> None:
    assert refusal(tmp_path, f"{PROFILE}{sentence}\n").startswith(words)

"""How users of a soak spend their time."""

from tests.soak.users import Rests


def test_users_rest_at_the_end_of_each_minute() -> None:
    now_s = 1_000.0
    rests = Rests(every_s=60, short_s=2, busy_s=0, clock=lambda: now_s)
    ended_s = []
    for excursion_s in (5, 11, 3, 29, 1) * 60:
        now_s += excursion_s
        rest_s = rests.next_s()
        now_s += rest_s
        if rest_s > 2:
            ended_s.append(now_s)
    assert len(ended_s) > 30
    assert {(at_s - 1_000) % 60 for at_s in ended_s} == {0}


def test_an_excursion_that_takes_too_long_begins_the_minutes_anew() -> None:
    now_s = 0.0
    rests = Rests(every_s=60, short_s=2, busy_s=0, clock=lambda: now_s)
    now_s = 150.0
    assert rests.next_s() == 2
    now_s = 152.0 + 40
    assert rests.next_s() == 20


def test_users_do_not_rest_for_long_before_the_run_is_judged() -> None:
    now_s = 0.0
    rests = Rests(every_s=60, short_s=2, busy_s=600, clock=lambda: now_s)
    while now_s < 610:
        assert rests.next_s() == 2
        now_s += 10
    now_s = 650.0
    assert rests.next_s() == 10

"""How users of a soak spend their time."""

from itertools import pairwise

from tests.soak.users import Rests


def test_users_rest_once_between_two_samples_for_half_of_that_time() -> None:
    now_s = 0.0
    rests = Rests(every_s=60, short_s=2, clock=lambda: now_s)
    began_s = []
    while now_s < 3_600:
        # An excursion.
        now_s += 5
        rest_s = rests.next_s()
        if rest_s > 2:
            assert rest_s == 30
            began_s.append(now_s)
        now_s += rest_s
    assert {later - earlier for earlier, later in pairwise(began_s)} == {63}

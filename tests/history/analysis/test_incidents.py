"""From episodes to incidents: what an incident says of them, and what happens together in one server."""

from typing import Any

from rsmq_tui.history.analysis.incidents import incidents_of, of_chosen, times_of
from rsmq_tui.history.analysis.values import Episode, Incident, QueueRef
from rsmq_tui.history.names import Place
from rsmq_tui.monitor.incidents import Expected

S, MINUTE, HOUR = 1_000, 60_000, 3_600_000
ONE, LISTS, OTHER = Place("prod", "db1", "rsmq"), Place("prod", "db1", "(lists)"), Place("prod", "db2", "rsmq")


def episode(
    verdict: str, start_ms: int, end_ms: int, queue: str | None = "q", place: Place = ONE, **more: Any
) -> Episode:
    usual: dict[str, Any] = {
        "ended": "over", "recovered_ms": end_ms, "peak_depth": None, "peak_ms": None,
        "peak_age_ms": None, "affected": None, "cause": f"was {verdict}",
    }  # fmt: skip
    return Episode(place, queue, verdict, start_ms, end_ms, **(usual | more))


def known(incidents: tuple[Incident, ...]) -> list[tuple[Any, ...]]:
    return [(one.queue, one.worst, one.start_ms, one.end_ms, one.episodes) for one in incidents]


def test_an_incident_says_what_its_episodes_were() -> None:
    (found,) = incidents_of(
        [
            episode("growing", 0, 10 * MINUTE, peak_depth=80, affected=70),
            episode("aged", 10 * MINUTE, 20 * MINUTE, peak_depth=90, affected=40),
            episode("stalled", 15 * MINUTE, 16 * MINUTE, cause="short"),
            episode("stalled", 20 * MINUTE, 30 * MINUTE, cause="long", ended="open", recovered_ms=None),
            episode("growing", 20 * MINUTE, 21 * MINUTE, affected=3),
        ]
    )

    assert known((found,)) == [("q", "stalled", 0, 30 * MINUTE, 5)]
    assert found.verdicts == ("growing", "aged", "stalled")
    assert (found.cause, found.ended, found.recovered_ms) == ("long", "open", None)
    assert (found.peak_depth, found.affected, found.head_id) == (90, 70, None)
    assert found.ref == (*ONE, "q")


def test_one_stall_in_three_rows_is_one_incident() -> None:
    stalls = [episode("stalled", start * MINUTE, (start + 7) * MINUTE + 40 * S) for start in (0, 8, 16)]

    assert known(incidents_of(stalls)) == [("q", "stalled", 0, 23 * MINUTE + 40 * S, 3)]


def test_a_queue_that_was_created_again_has_incidents_of_its_own() -> None:
    lost: dict[str, Any] = {"ended": "unknown", "recovered_ms": None}
    episodes = [
        episode("growing", 0, 9 * MINUTE, created_ms=1, **lost),
        episode("growing", 10 * MINUTE, 11 * MINUTE, created_ms=1, **lost),
        # Of an older table: it may be the same queue.
        episode("growing", 12 * MINUTE, 13 * MINUTE, **lost),
        episode("growing", 14 * MINUTE, 20 * MINUTE, created_ms=2, ended="open", recovered_ms=None),
    ]

    assert known(incidents_of(episodes)) == [
        ("q", "growing", 0, 13 * MINUTE, 3),
        ("q", "growing", 14 * MINUTE, 20 * MINUTE, 1),
    ]
    assert [one.ended for one in incidents_of(episodes)] == ["unknown", "open"]


def test_an_outage_of_several_places_is_one_and_the_head_of_what_follows() -> None:
    found = incidents_of(
        [
            episode("stalled", 0, 5 * MINUTE, "before"),
            episode("down", 30 * MINUTE, 32 * MINUTE, None, cause="refused"),
            episode("down", 30 * MINUTE + S, 32 * MINUTE + S, None, LISTS, cause="refused for 2m"),
            episode("stalled", 33 * MINUTE, 50 * MINUTE, "during", affected=7),
            episode("growing", 32 * MINUTE, 40 * MINUTE, "queue:x", LISTS, affected=5),
            episode("stalled", 31 * MINUTE, 33 * MINUTE, "elsewhere", OTHER),
            episode("stalled", 34 * MINUTE, 50 * MINUTE, "after"),
        ]
    )

    assert known(found) == [
        ("before", "stalled", 0, 5 * MINUTE, 1),
        (None, "down", 30 * MINUTE, 50 * MINUTE, 4),
        ("elsewhere", "stalled", 31 * MINUTE, 33 * MINUTE, 1),
        ("queue:x", "growing", 32 * MINUTE, 40 * MINUTE, 1),
        ("during", "stalled", 33 * MINUTE, 50 * MINUTE, 1),
        ("after", "stalled", 34 * MINUTE, 50 * MINUTE, 1),
    ]
    head = found[1]
    assert head.place == Place("prod", "db1", "")
    assert head.cause == "refused; 2 queues at the same time: stalled (1), growing (1)"
    assert (head.verdicts, head.affected) == (("down", "growing", "stalled"), 12)
    assert (head.ended, head.recovered_ms, head.head_id) == ("over", 50 * MINUTE, None)
    assert [one.queue for one in found if one.head_id == head.id] == ["queue:x", "during"]
    assert [one.queue for one in found if one.head_id is None] == ["before", None, "elsewhere", "after"]


def test_what_began_before_an_outage_is_not_of_it() -> None:
    found = incidents_of(
        [
            episode("stalled", 30 * S, HOUR, "gone before", affected=9),
            # No receive since the last but one answer.
            episode("stalled", 55 * S, HOUR, "slow", affected=1),
            episode("down", 65 * S, 80 * S, None, answered_ms=60 * S),
            episode("down", 66 * S, 80 * S, None, LISTS, answered_ms=61 * S),
        ]
    )

    (head,) = (one for one in found if one.queue is None)
    assert {one.queue: one.head_id for one in found if one.queue} == {"gone before": None, "slow": head.id}
    assert head.affected == 1


def test_the_ok_times_in_an_incident_are_no_trouble() -> None:
    episodes = [
        episode("stalled", 0, MINUTE),
        episode("aged", 50 * S, 2 * MINUTE),
        episode("stalled", 2 * MINUTE + 20 * S, 3 * MINUTE),
        episode("down", 10 * S, 20 * S, None),
        episode("down", 40 * S, 50 * S, None, LISTS),
        episode("down", 3 * MINUTE + S, 4 * MINUTE, None),
        episode("aged", HOUR, 2 * HOUR, place=OTHER),
    ]
    found = {one.id: one for one in incidents_of(episodes)}
    times = {
        (found[id].place.server, found[id].queue): spans for id, spans in times_of(found.values(), episodes).items()
    }

    queue = [(0, 2 * MINUTE), (2 * MINUTE + 20 * S, 3 * MINUTE)]
    assert times == {
        ("db1", None): [*queue, (3 * MINUTE + S, 4 * MINUTE)], ("db1", "q"): queue, ("db2", "q"): [(HOUR, 2 * HOUR)],
    }  # fmt: skip
    # Without the episodes, only the whole is known.
    assert list(times_of([one for one in found.values() if one.queue], ()).values()) == [
        [(0, 3 * MINUTE)], [(HOUR, 2 * HOUR)],
    ]  # fmt: skip


def test_an_outage_alone_is_a_head_of_nothing() -> None:
    (found,) = incidents_of([episode("down", 0, MINUTE, None, cause="refused")])

    assert known((found,)) == [(None, "down", 0, MINUTE, 1)]
    assert found.cause == "refused"


def test_queues_of_one_server_that_begin_together_have_a_head() -> None:
    found = incidents_of(
        [
            episode("stalled", 0, HOUR, "a", ended="open", recovered_ms=None),
            episode("stalled", 50 * S, HOUR, "b"),
            episode("stalled", 70 * S, HOUR, "c"),
            episode("aged", 20 * S, HOUR, "d", OTHER),
        ]
    )

    heads = [one for one in found if one.queue is None]
    assert known(tuple(heads)) == [(None, "stalled", 0, HOUR, 2)]
    assert (heads[0].ended, heads[0].recovered_ms) == ("open", None)
    assert heads[0].cause == "2 queues at the same time: stalled (2)"
    assert {one.queue: one.head_id for one in found if one.queue} == {
        "a": heads[0].id, "b": heads[0].id, "c": None, "d": None,
    }  # fmt: skip


def test_two_incidents_of_one_queue_are_not_together() -> None:
    found = incidents_of([episode("aged", 0, 5 * S), episode("stalled", 45 * S, HOUR)])

    assert known(found) == [("q", "aged", 0, 5 * S, 1), ("q", "stalled", 45 * S, HOUR, 1)]


def test_expected_troubles_are_no_incidents() -> None:
    night = Expected(("dead-*",), ((HOUR, 2 * HOUR),))
    episodes = [
        episode("growing", 0, 9 * HOUR, "dead-letters"),
        episode("stalled", HOUR + MINUTE, 2 * HOUR - MINUTE),
        episode("down", HOUR + MINUTE, HOUR + 2 * MINUTE, None),
        episode("stalled", HOUR + MINUTE, 3 * HOUR, "late"),
        episode("aged", HOUR, 2 * HOUR, "elsewhere", Place("", "db1", "rsmq")),
    ]

    assert known(incidents_of(episodes, {"prod": night})) == [
        ("elsewhere", "aged", HOUR, 2 * HOUR, 1),
        ("late", "stalled", 2 * HOUR, 3 * HOUR, 1),
    ]


def test_an_expected_queue_may_be_named_with_its_kind() -> None:
    episodes = [episode("stalled", 0, HOUR, "mail", place) for place in (ONE, LISTS)]

    found = incidents_of(episodes, {"prod": Expected(("list:mail",))})

    assert [one.place for one in found if one.queue] == [ONE]


def test_ids_differ_and_stay() -> None:
    episodes = [episode("stalled", start * HOUR, start * HOUR + MINUTE, queue, place)
                for start in range(3) for queue in ("a", "b\udcff", None) for place in (ONE, LISTS, OTHER)]  # fmt: skip

    ids = [one.id for one in incidents_of(episodes)]

    assert len(set(ids)) == len(ids) == 24
    assert ids == [one.id for one in incidents_of(episodes[::-1])]


def test_the_heads_of_chosen_queues_stand_for_these_only() -> None:
    episodes = [
        episode("stalled", 0, HOUR, "a", affected=1),
        episode("growing", S, HOUR, "b", affected=20),
        episode("aged", 2 * S, 2 * HOUR, "c", affected=300, peak_depth=9),
        # A planned outage until 3:00, of which the rest counts.
        episode("down", 2 * HOUR + 30 * MINUTE, 3 * HOUR + MINUTE, None, cause="refused"),
        episode("stalled", 3 * HOUR + MINUTE, 4 * HOUR, "b", affected=4),
        episode("stalled", 3 * HOUR + MINUTE, 4 * HOUR, "c", affected=50),
        episode("aged", 5 * HOUR, 6 * HOUR, "c", OTHER),
    ]
    expected = Expected(spans=((2 * HOUR + 20 * MINUTE, 3 * HOUR),))
    found = incidents_of(episodes, {"prod": expected})

    def chosen(*queues: str) -> list[tuple[Any, ...]]:
        those = of_chosen(found, [QueueRef(*ONE, queue) for queue in queues], episodes)
        return [(one.queue, one.verdicts, one.affected, one.head_id is None) for one in those]

    assert chosen("a", "b") == [
        (None, ("stalled", "growing"), 21, True), ("a", ("stalled",), 1, False), ("b", ("growing",), 20, False),
        (None, ("down", "stalled"), 4, True), ("b", ("stalled",), 4, False),
    ]  # fmt: skip
    # Alone, a queue is its own incident; an outage stays one without incidents of the chosen queues.
    assert chosen("a") == [("a", ("stalled",), 1, True), (None, ("down",), None, True)]
    outage = of_chosen(found, [QueueRef(*ONE, "c")], episodes)[1]
    assert (outage.cause, outage.start_ms) == ("refused; 1 queue at the same time: stalled (1)", 3 * HOUR)
    # What a head says of an outage is kept where the outage's own rows are lost.
    lost = [one for one in of_chosen(found, [QueueRef(*ONE, "b")], ()) if one.queue is None]
    assert [(one.verdicts, one.affected) for one in lost] == [(("down", "stalled"), 4)]
    assert of_chosen(found, [QueueRef(*OTHER, "c")], episodes) == tuple(one for one in found if one.place == OTHER)

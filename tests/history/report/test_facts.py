"""What a report claims of all queues together, and of forecasts, holds for each queue and for its range."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import LIFECYCLE, QUEUES, ROLLUP_1M, ROLLUP_10S
from rsmq_tui.history.analysis.values import QueueRef, TimeRange
from rsmq_tui.history.report.facts import Report, gather
from rsmq_tui.history.report.markdown import as_markdown
from rsmq_tui.history.report.tables import overviews
from rsmq_tui.history.report.words import END, NAME, figures, fullest, poisoned, worst
from rsmq_tui.monitor.moments import DAY_MS
from tests.history.analysis.made import Made, bucket, episode, named
from tests.history.analysis.queues import EMAILS, END_MS, EU, ORDERS, PROD, START_MS, WEBHOOKS

HOUR = TimeRange(START_MS, START_MS + 3_600_000)


def of(made: Made, peaks: dict[QueueRef, dict[int, float]], buckets: int = 360) -> Report:
    """An hour in buckets of ten seconds: each queue is empty, but for some buckets whose greatest depth is given."""
    for ref, greatest in peaks.items():
        known = {"kind": "rsmq", "first_ms": START_MS, "last_ms": HOUR.to_ms, "samples": 10}
        made.add(QUEUES, {**named(ref), **known, "peak_depth": 1, "last_depth": 0})
        for number in range(buckets):
            row = bucket(ref, START_MS + number * 10_000, 10_000, samples=2, depth=0.0)
            if number in greatest:
                # It was there for a part of the bucket only.
                row |= {"depth_mean": greatest[number] / 2, "depth_max": greatest[number]}
            made.add(ROLLUP_10S, row)
    in_trouble = episode(ORDERS.place, "orders", "aged", START_MS, START_MS + 60_000, peak_depth=None, peak_ms=None)
    made.add("episodes", in_trouble)
    made.publish()
    return gather(Analysis(made.out), HOUR)


def test_together_is_never_less_than_what_one_queue_held(tmp_path: Path) -> None:
    report = of(Made(tmp_path), {ORDERS: {7: 1000.0}, EMAILS: {300: 400.0}})
    assert report.fullest is not None
    assert report.fullest == (START_MS + 70_000, 1000.0, START_MS + 70_000, 1000.0)
    assert "The total depth peaked at 2031-05-14 00:01: about 1,000 messages." in fullest(report)


def test_peaks_of_one_moment_may_add_up(tmp_path: Path) -> None:
    report = of(Made(tmp_path), {ORDERS: {7: 1000.0}, EMAILS: {7: 400.0}})
    assert report.fullest == (START_MS + 70_000, 1000.0, START_MS + 70_000, 1400.0)
    assert "reached between 1,000 and 1,400 messages at 2031-05-14 00:01." in fullest(report)


def test_what_was_held_and_what_may_have_been_held_have_a_time_each(tmp_path: Path) -> None:
    report = of(Made(tmp_path), {ORDERS: {100: 700.0, 200: 1200.0}, EMAILS: {100: 700.0}})
    assert report.fullest == (START_MS + 2_000_000, 1200.0, START_MS + 1_000_000, 1400.0)
    words = "reached 1,200 messages at 2031-05-14 00:33; it may have reached 1,400 at 2031-05-14 00:16."
    assert words in fullest(report)


def test_a_place_that_was_not_polled_hides_no_peak_of_another(tmp_path: Path) -> None:
    made = Made(tmp_path)
    rows = {ORDERS: {200: 5000.0}, WEBHOOKS: {3: 10.0}}
    of(made, rows)
    stored = [row for part in made.rows[ROLLUP_10S].pop("2031-05-14") for row in part.to_pylist()]
    made.add(ROLLUP_10S, *(row for row in stored if not _is_away(row)))
    made.publish("run-2")
    report = gather(Analysis(tmp_path), HOUR)
    assert max(value for _, value in report.depth.points if value is not None) < 5000
    assert report.fullest == (START_MS + 2_000_000, 5000.0, START_MS + 2_000_000, 5000.0)


def _is_away(row: dict[str, object]) -> bool:
    at_ms = row["bucket_ms"]
    assert isinstance(at_ms, int)
    return row["server"] == EU.server and at_ms >= START_MS + 1_000_000


def test_an_episode_within_the_range_counts_where_its_roll_up_is_lost(tmp_path: Path) -> None:
    made = Made(tmp_path)
    place = ORDERS.place
    made.add("episodes", episode(place, "orders", "aged", START_MS, START_MS + 60_000, peak_depth=9_000))
    before = episode(place, "emails", "aged", START_MS - DAY_MS, START_MS + 60_000, peak_depth=99_000)
    made.add("episodes", {**before, "peak_ms": START_MS - DAY_MS})
    report = of(made, {ORDERS: {7: 1000.0}, EMAILS: {}})
    assert report.fullest is not None
    assert report.fullest.least == 9_000


def test_the_peak_of_a_chosen_queue_is_its_own(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add("episodes", episode(EMAILS.place, "emails", "aged", START_MS, START_MS + 60_000, peak_depth=9_000))
    of(made, {ORDERS: {7: 1000.0}, EMAILS: {}})
    report = gather(Analysis(tmp_path), HOUR, queues={ORDERS})
    assert report.fullest == (START_MS + 70_000, 1000.0, START_MS + 70_000, 1000.0)
    assert "The queue's depth peaked at 2031-05-14 00:01: about 1,000 messages." in fullest(report)


def test_nothing_is_told_that_lies_outside_of_the_range(analysis_folder: Path) -> None:
    """The last hours of an incident, the first of another, and minutes that begin before the range."""
    analysis = Analysis(analysis_folder)
    day = END_MS - DAY_MS
    span = TimeRange(day + 16 * 3_600_000 + 30_500, day + 20 * 3_600_000 + 600_000)
    report = gather(analysis, span)
    for line in (report.depth, *report.rates, *(section.depth for section in report.sections)):
        assert line.points
        assert all(span.from_ms <= at_ms and at_ms + line.step_ms <= span.to_ms for at_ms, _ in line.points)
    assert [(one.queue, report.lasted_ms(one)) for one in report.incidents] == [
        ("orders", day + 18 * 3_600_000 - span.from_ms),
        ("emails", 600_000),
    ]
    assert report.figures.trouble_ms == 18 * 3_600_000 + day - span.from_ms + 600_000
    # Its peak was at 16:00, its depth and its messages are those of the whole incident, and it recovered at 18:30.
    assert worst(report) == [
        f"{NAME}emails · prod{END} was stalled from 2031-05-17 20:00:00 to the end of the range, for 10m.",
        f"{NAME}orders · prod{END} was growing when the range began, for 1h 59m of it, until 2031-05-17 18:00:00.",
    ]
    assert [row[5:] for row in overviews(report)[0].table.rows] == [("–", "–", "it reaches beyond the range")] * 2
    assert report.fullest is not None
    assert span.from_ms <= min(report.fullest.least_ms, report.fullest.most_ms)
    assert (report.forecasts, report.poison) == ((), ())
    assert "38,400" not in as_markdown(report)
    # Of the unusual hours, 14:00 begins before this range, and 15:00 ends after the next one.
    for from_ms, to_ms, hours in (
        (14 * 3_600_000 + 1, 16 * 3_600_000, [15]),
        (14 * 3_600_000, 15 * 3_600_000 + 1, [14]),
    ):
        found = gather(analysis, TimeRange(day + from_ms, day + to_ms)).anomalies
        assert [one.bucket_ms for one in found] == [day + hour * 3_600_000 for hour in hours]


@pytest.mark.parametrize(
    ("mean_s", "highest_s", "late"),
    [(700, 800, 60), (600, 900, 30), (500, 900, 22.5), (300, 600, 0), (590, 590, 0), (610, 610, 60)],
)
def test_of_a_minute_in_which_a_backlog_drains_the_messages_before_the_limit_are_late(
    tmp_path: Path, mean_s: float, highest_s: float, late: float
) -> None:
    """The first ready message was at first ``highest_s`` old, and at last as much less than the mean."""
    made = Made(tmp_path)
    row = bucket(ORDERS, START_MS, 60_000, depth=1_460.0, oldest_ready_age_ms=mean_s * 1000.0)
    made.add(ROLLUP_1M, {**row, "oldest_ready_age_ms_max": highest_s * 1000.0, "receives": 60, "redeliveries": 0})
    assert of(made, {ORDERS: {}}, 1).figures.late == pytest.approx(late)


def test_messages_that_were_delayed_or_came_back_are_late_by_how_long_they_were_ready(tmp_path: Path) -> None:
    made = Made(tmp_path)
    waits_ms = {ORDERS: 1_000.0, EMAILS: 900_000.0, WEBHOOKS: None}
    for ref, waited_ms in waits_ms.items():
        row = bucket(
            ref, START_MS, 60_000, depth=9.0, oldest_ready_age_ms=3_600_000.0, oldest_ready_waiting_ms=waited_ms
        )
        made.add(ROLLUP_1M, {**row, "receives": 60, "redeliveries": 0})
    # The table of the last one is an older one, which has only ages.
    assert {row.ref: row.late for row in of(made, {ref: {} for ref in waits_ms}, 1).queues} == {
        ORDERS: 0.0, EMAILS: 60.0, WEBHOOKS: 60.0
    }  # fmt: skip


def test_of_a_queue_that_nobody_received_from_it_is_unknown_how_many_messages_were_late(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for ref, received in ((ORDERS, 0), (EMAILS, 12), (WEBHOOKS, 30)):
        waited_ms = 3_600_000.0 if ref != WEBHOOKS else 1_000.0
        counts = {"arrivals": 60, "receives": received + 5, "redeliveries": 5}
        row = bucket(ref, START_MS, 60_000, depth=1_460.0, oldest_ready_age_ms=waited_ms)
        made.add(ROLLUP_1M, {**row, **counts})
    report = of(made, {ORDERS: {}, EMAILS: {}, WEBHOOKS: {}}, 1)
    assert {row.ref: row.late for row in report.queues} == {ORDERS: None, EMAILS: 12.0, WEBHOOKS: 0.0}
    assert report.figures.late == 12.0
    assert gather(Analysis(tmp_path), HOUR, (ORDERS,)).figures.late is None


def test_a_server_is_all_of_its_queues_only_if_all_were_in_trouble(tmp_path: Path) -> None:
    made = Made(tmp_path)
    refs = [QueueRef(*PROD, name) for name in "abc"]
    for ref in (*refs, WEBHOOKS):
        made.add(QUEUES, {**named(ref), "first_ms": START_MS, "last_ms": HOUR.to_ms, "samples": 10})
    for number, verdict in enumerate(("growing", "stalled")):
        at_ms = START_MS + number * 1_000
        made.add("episodes", episode(PROD, refs[number].queue, verdict, at_ms, START_MS + 600_000))
    made.publish()

    def subjects(*queues: QueueRef) -> list[str]:
        return [report_of.subject(one) for report_of in [gather(Analysis(tmp_path), HOUR, queues or None)]
                for one in report_of.heads]  # fmt: skip

    report = gather(Analysis(tmp_path), HOUR)
    assert [report.subject(one) for one in report.heads] == ["2 of 3 queues of prod"]
    (sentence,) = worst(report)
    assert sentence.startswith(f"{NAME}2 of 3 queues of prod{END} were growing and stalled for 10m")
    queues = f"{NAME}b · prod{END} (stalled) and {NAME}a · prod{END} (growing)"
    assert sentence.endswith(f"Then they were ok again. In trouble: {queues}.")
    assert subjects(*refs[:2]) == ["all 2 chosen queues of prod"]
    made.add("episodes", episode(PROD, "c", "aged", START_MS, START_MS + 600_000))
    made.publish("run-2")
    assert subjects() == ["all 3 queues of prod"]


def test_without_inventories_it_is_unknown_which_messages_were_received_too_often(tmp_path: Path) -> None:
    made = Made(tmp_path)

    def told(*queues: QueueRef) -> str:
        report = gather(Analysis(tmp_path), HOUR, queues or None)
        return {one.name: one.none for one in overviews(report)}["poison"]

    unknown = "Unknown: no inventories of messages were recorded in this time range (rsmq-tui record --messages 5m)."
    # The last inventory of one queue was before the range.
    made.add(LIFECYCLE, {**named(EMAILS), "first_ms": START_MS, "last_inventory_ms": START_MS - 1})
    of(made, {ORDERS: {}, EMAILS: {}}, 1)
    assert told() == unknown
    made.add(LIFECYCLE, {**named(ORDERS), "first_ms": START_MS, "last_inventory_ms": START_MS + 60_000})
    made.publish("run-2")
    assert told() == "No message was received too often in this time range, according to the recorded inventories."
    assert told(EMAILS) == unknown


def test_a_moved_poison_message_is_one(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for ref in (ORDERS, EMAILS):
        made.add("poison", {**named(ref), "id": "m1", "rc": 7, "first_seen_ms": START_MS, "last_seen_ms": START_MS})
    report = of(made, {ORDERS: {}, EMAILS: {}}, 1)
    assert poisoned(report) == "1 message of 2 queues was received too often."


def test_trouble_from_before_the_range_that_goes_on_has_no_end(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add(QUEUES, {**named(ORDERS), "first_ms": START_MS, "last_ms": START_MS + 3_600_000, "samples": 10})
    lasts = START_MS - 60_000, START_MS + 3_600_000
    made.add("episodes", episode(PROD, "orders", "stalled", *lasts, ended="open", recovered_ms=None))
    made.publish()
    report = gather(Analysis(tmp_path), TimeRange(START_MS, START_MS + 3_600_000))
    (sentence,) = worst(report)
    assert sentence.endswith(" was stalled when the range began, and still was at the end of the history, 1h 0m later.")


def test_trouble_from_before_the_range_that_was_lost_sight_of_has_no_end(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add(QUEUES, {**named(ORDERS), "first_ms": START_MS, "last_ms": START_MS + 3_600_000, "samples": 10})
    lasts = START_MS - 60_000, START_MS + 1_800_000
    made.add("episodes", episode(PROD, "orders", "stalled", *lasts, ended="unknown", recovered_ms=None))
    made.publish()
    (sentence,) = worst(gather(Analysis(tmp_path), TimeRange(START_MS, START_MS + 3_600_000)))
    assert sentence.endswith(
        " was stalled when the range began, for at least 30m of it; after that it was gone, or nothing was recorded."
    )


@pytest.mark.parametrize(
    ("queue", "verdict", "after"),
    [("orders", "stalled", "it was gone, or nothing was recorded"), (None, "down", "nothing was recorded")],
)
def test_of_trouble_without_a_known_end_it_is_said_what_came_then(
    tmp_path: Path, queue: str | None, verdict: str, after: str
) -> None:
    made = Made(tmp_path)
    made.add(QUEUES, {**named(ORDERS), "first_ms": START_MS, "last_ms": START_MS + 3_600_000, "samples": 10})
    lasts = START_MS + 60_000, START_MS + 120_000
    made.add("episodes", episode(PROD, queue, verdict, *lasts, ended="unknown", recovered_ms=None))
    made.publish()
    (sentence,) = worst(gather(Analysis(tmp_path), HOUR))
    assert f" was {verdict} from 2031-05-14 00:01:00 for at least 1m 0s; after that {after}" in sentence


def test_an_outage_lasts_as_long_as_the_server_was_down(tmp_path: Path) -> None:
    """A queue that is in trouble from then on is an incident of its own time; so is one that began before the range."""
    made = Made(tmp_path)
    at: Callable[[int], int] = lambda minute: START_MS + minute * 60_000  # noqa: E731
    made.add(QUEUES, {**named(ORDERS), "first_ms": START_MS, "last_ms": at(1440), "samples": 10})
    for first, last in ((0, 10), (100, 105)):
        made.add("episodes", episode(PROD, None, "down", at(first), at(last), affected=None, peak_depth=None))
    made.add("episodes", episode(PROD, "orders", "stalled", at(10), at(90)))
    made.add("episodes", episode(PROD, "orders", "stalled", at(105), at(1440), ended="open", recovered_ms=None))
    made.publish()
    whole = gather(Analysis(tmp_path), TimeRange(at(0), at(1440)))
    assert [(one.queue, one.length_ms // 60_000) for one in whole.heads] == [(None, 10), (None, 5)]
    assert [(one.queue, one.length_ms // 60_000) for one in whole.incidents] == [
        (None, 10), ("orders", 80), (None, 5), ("orders", 1335),
    ]  # fmt: skip
    later = gather(Analysis(tmp_path), TimeRange(at(50), at(99)))
    assert [(one.queue, one.head_id) for one in later.heads] == [("orders", None)]
    assert (later.figures.incidents, later.figures.outages) == (1, 0)


def test_an_outage_has_the_bounds_of_the_polls_around_it(tmp_path: Path) -> None:
    made = Made(tmp_path)

    def at(second: int) -> int:
        return START_MS + second * 1_000

    made.add(QUEUES, {**named(ORDERS), "first_ms": START_MS, "last_ms": at(3600), "samples": 10})
    # A server that answers nothing: each poll waits for some seconds until it fails, here one once, and others before.
    for answered, first, failed, last in ((595, 600, 612, 619), (707, 713, 713, 714)):
        known = {"answered_ms": at(answered), "failed_ms": at(failed)}
        made.add("episodes", episode(PROD, None, "down", at(first), at(last), affected=None, cause="no answer") | known)
    made.publish()

    report = gather(Analysis(tmp_path), HOUR)
    assert report.figures.down_ms == (12_000, 31_000)
    (sentence,) = worst(report)
    assert " was down 2 times for 20 s in all (12 s to 31 s), from " in sentence
    assert [row[3] for row in overviews(report)[0].table.rows] == ["20 s (12 s to 31 s)"]
    assert figures(report)[0].note.endswith("(12 s to 31 s)")
    # Nothing is said of one that reaches beyond the range.
    assert gather(Analysis(tmp_path), TimeRange(at(605), at(720))).figures.down_ms is None
    later = gather(Analysis(tmp_path), TimeRange(at(700), at(720)))
    assert figures(later)[0].note.endswith("(at most 7 s)")


def test_a_queue_that_recovered_counts_although_others_go_on(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for name, end_s, more in (("pay", 80, {}), ("mail", 3_600, {"ended": "open", "recovered_ms": None})):
        made.add(QUEUES, {**named(QueueRef(*PROD, name)), "first_ms": START_MS, "last_ms": HOUR.to_ms, "samples": 10})
        made.add("episodes", episode(PROD, name, "stalled", START_MS, START_MS + end_s * 1_000, **more))
    made.publish()

    report = gather(Analysis(tmp_path), HOUR)
    assert (report.figures.incidents, report.figures.recoveries_ms) == (1, (80_000,))
    (sentence,) = worst(report)
    assert " were stalled since 2031-05-14 00:00:00, and 1 of them still was at the end of the history, " in sentence
    assert [row[4] for row in overviews(report)[0].table.rows] == ["1 of 2 ongoing", "ongoing", "05-14 00:01:20"]


def test_two_stalls_of_one_incident_do_not_include_the_time_between_them(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add(QUEUES, {**named(ORDERS), "first_ms": START_MS, "last_ms": HOUR.to_ms, "samples": 10})
    for first_s, last_s in ((600, 700), (720, 800)):
        times = START_MS + first_s * 1_000, START_MS + last_s * 1_000
        made.add("episodes", episode(PROD, ORDERS.queue, "stalled", *times, cause="none received"))
    made.publish()

    report = gather(Analysis(tmp_path), HOUR)
    (sentence,) = worst(report)
    assert " was stalled 2 times for 3m 0s in all, from 2031-05-14 00:10:00 to 2031-05-14 00:13:20, the " in sentence
    assert (report.figures.trouble_ms, [row.trouble_ms for row in report.queues]) == (180_000, [180_000])
    assert report.figures.recoveries_ms == (200_000,)
    assert [row[3] for row in overviews(report)[0].table.rows] == ["3m 0s"]


def test_two_outages_of_one_incident_do_not_include_the_time_between_them(tmp_path: Path) -> None:
    made = Made(tmp_path)

    def at(second: int) -> int:
        return START_MS + second * 1_000

    made.add(QUEUES, {**named(ORDERS), "first_ms": START_MS, "last_ms": at(3600), "samples": 10})
    for first, last in ((600, 619), (713, 723)):
        why = f"no answer for {last - first} s"
        made.add("episodes", episode(PROD, None, "down", at(first), at(last), affected=None, cause=why))
    made.publish()
    report = gather(Analysis(tmp_path), HOUR)
    assert worst(report) == [
        f"{NAME}all of prod{END} was down 2 times for 29 s in all, from 2031-05-14 00:10:00 to 2031-05-14 00:12:03, "
        "the longest time: no answer for 19 s. Then it was ok again."
    ]
    figures = report.figures
    assert (figures.incidents, figures.outages, figures.trouble_ms) == (1, 2, 29_000)
    assert figures.recoveries_ms == (10_000, 19_000)
    assert [row[3] for row in overviews(report)[0].table.rows] == ["29 s"]
    (begun,) = worst(gather(Analysis(tmp_path), TimeRange(at(610), at(720))))
    assert begun == f"{NAME}all of prod{END} was down 2 times for 16 s in all of the range."

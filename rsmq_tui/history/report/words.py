"""The sentences and the numbers of a report: printable text, not escaped, for both formats."""

from collections.abc import Callable, Sequence
from functools import partial
from math import floor, log10
from typing import NamedTuple, TypeVar

from rsmq_tui.history.analysis.incidents import outcome_words
from rsmq_tui.history.analysis.values import AGE, DOWN, OPEN, Incident, Line, QueueRef, TimeRange
from rsmq_tui.history.changes import CountedChange
from rsmq_tui.history.report.facts import LATE_MS, Bounds, Figures, Report, Section, server_name, worst_first
from rsmq_tui.history.report.restarts import DESCRIBED_MAX, Recreated, Restart
from rsmq_tui.history.report.slo import ServiceLevel
from rsmq_tui.monitor import Verdict
from rsmq_tui.monitor.changes import AuditedChange
from rsmq_tui.monitor.text import (
    UNKNOWN,
    and_more,
    compact,
    count,
    date_clock,
    duration,
    duration_up,
    plural,
    printable,
    rate,
)

T = TypeVar("T")
# Delimiters of names in sentences; printable text does not contain them.
NAME, END = "\x02", "\x03"
CAUSE_MAX = 300
_NAMED_MAX = 3
# Of the queues that one incident stands for.
_QUEUES_NAMED = 8
METRICS = {
    "depth": "depth",
    AGE: "oldest ready message",
    "arrivals_s": "arrivals",
    "deletes_s": "deletes",
    "receives_s": "receives",
    "redeliveries_s": "redeliveries",
}
LETTERS = {name: name[0].upper() for name in (DOWN, *(verdict.value for verdict in Verdict if verdict.is_trouble))}
"""The letter of each verdict, for readers who cannot see its colour."""
OTHER = "other"
_WAS = {"broken": "unusable"}


def kind(verdict: str) -> str:
    """Return a verdict that is known here, or ``OTHER``."""
    return verdict if verdict in LETTERS else OTHER


def letter(verdict: str) -> str:
    """Return the letter of a verdict."""
    return LETTERS.get(verdict, "?")


def verdict_words(verdict: str) -> str:
    """Return a verdict's letter and word."""
    return f"{letter(verdict)} {printable(verdict, 40)}"


def minute(at_ms: int | None) -> str:
    """Format a moment of a range, a chart or a forecast, which is not known to the second: 2031-05-17 21:50."""
    words = date_clock(at_ms)
    return words[:16] if len(words) == 19 else words


def when(report: Report, at_ms: int | None, form: Callable[[int | None], str] = date_clock) -> str:
    """Format a moment for a table: without the year if that of the range is the only one."""
    words = form(at_ms)
    years = {minute(end_ms)[:4] for end_ms in report.span} | {words[:4]}
    return words[5:] if words != UNKNOWN and len(years) == 1 else words


def range_words(span: TimeRange) -> str:
    """Format a range: 2031-05-17 21:50 to 22:30 UTC."""
    first, last = minute(span.from_ms), minute(span.to_ms)
    same_day = first[:10] == last[:10] and len(last) == 16
    return f"{first} to {last[11:] if same_day else last} UTC"


def title(report: Report) -> str:
    """Return the report's title."""
    return printable(report.title, 200) if report.title else f"Queues from {range_words(report.span)}"


def subtitle(report: Report) -> str:
    """Return what the report is about: its range if the title is another, its queues and its servers."""
    parts = [range_words(report.span)] if report.title else []
    parts.append(duration(report.span.length_ms))
    parts.append(plural(len(report.queues), "queue"))
    servers = dict.fromkeys(map(server_name, report.outages))
    parts.append(and_more(list(servers)[:_NAMED_MAX], len(servers)))
    return " · ".join(filter(None, parts))


def metric_value(metric: str, value: float | None) -> str:
    """Format a value of a metric with its unit."""
    if value is None:
        return UNKNOWN
    return duration(value) if metric == AGE else f"{rate(value)}/s" if metric.endswith("_s") else count(value)


def percent(share: float | None) -> str:
    """Format a share of good time, rounded down: 99.93 %, with more digits the closer it is to 100 %."""
    if share is None:
        return UNKNOWN
    if share >= 1 or share <= 0:
        return f"{100 * share:.0f} %"
    digits = max(1, min(6, -floor(log10(1 - share)) - 1))
    # The product of a share such as 0.57 is a little less than 57.
    return f"{floor(round(share * 100 * 10**digits, 6)) / 10**digits:.{digits}f} %"


def budget_words(level: ServiceLevel) -> str:
    """Return how much of the error budget of a level is left."""
    left = level.budget_left
    if left is None:
        return UNKNOWN
    return f"{100 * left:.0f} %" if left > -10 else f"{-left:,.0f} times over"


def burn_words(level: ServiceLevel) -> tuple[str, ...]:
    """Return the burn rates of a level; ! marks those that need attention."""
    return tuple(
        UNKNOWN if burn is None else f"{burn:.1f}{'!' if is_high else ''}"
        for burn, is_high in zip(level.burn_rates, level.alerting, strict=True)
    )


class Figure(NamedTuple):
    """One of the figures of the first page: what it is, its value, what it means, and its value before."""

    label: str
    value: str
    note: str
    before: str


def figures(report: Report) -> tuple[Figure, ...]:
    """Return the five figures."""
    now, then = report.figures, report.figures_before
    outages = (
        f"{plural(now.outages, 'outage')}, {duration(now.answering.bad_ms)}{bounds_words(now.down_ms)}"
        if now.outages
        else "no outage of a server"
    )
    than = "than their target" if report.has_targets else f"than {_short(LATE_MS)}"
    values = [_values(each) for each in (now, then) if each is not None]
    notes = (
        ("Availability", f"of servers; {outages}"),
        ("Incidents", f"{count(now.queues)} of {plural(len(report.queues), 'queue')} had one"),
        ("Time in trouble", f"{100 * now.trouble_ms / report.span.length_ms:.1f} % of the time, at least one queue"),
        ("Time to recovery", f"median and 95th percentile of {len(now.recoveries_ms)}"),
        ("Messages late", f"about; waited longer {than}"),
    )
    before = values[1] if then is not None else [""] * len(notes)
    return tuple(
        Figure(label, value, note, earlier)
        for (label, note), value, earlier in zip(notes, values[0], before, strict=True)
    )


def _values(figures: Figures) -> list[str]:
    median, most = figures.recovery_ms(50), figures.recovery_ms(95)
    return [
        percent(figures.answering.attained),
        count(figures.incidents),
        duration(figures.trouble_ms) if figures.trouble_ms else "none",
        UNKNOWN if median is None or most is None else f"{_short(median)} / {_short(most)}",
        compact(figures.late),
    ]


def bounds_words(bounds: Bounds | None) -> str:
    """Return the bounds of how long servers were down, as the log of events does; empty if they are not known."""
    if bounds is None:
        return ""
    most = duration_up(bounds.most_ms)
    return f" ({duration(bounds.least_ms)} to {most})" if bounds.least_ms else f" (at most {most})"


def _short(ms: int) -> str:
    return duration(ms).removesuffix(" 0s").removesuffix(" 0m").removesuffix(" 0h")


def worst(report: Report) -> list[str]:
    """Return a sentence for each of the worst three incidents."""
    if not report.queues:
        return ["The analysis contains no queues."]
    order = worst_first(report, report.heads)
    if not order:
        return ["No queue was in trouble in this time range."]
    sentences = incident_sentence, _queues_of, _changes_during
    return [
        " ".join(filter(None, (sentence(report, incident) for sentence in sentences)))
        for incident in order[:_NAMED_MAX]
    ]


def restarts(report: Report) -> list[str]:
    """Return a sentence for each restart and failover of a server, the first ones of many."""
    return _first(report.restarts, _restart_sentence)


def recreated(report: Report) -> list[str]:
    """Return a sentence for each queue that was deleted and created again, the first ones of many."""

    def sentence(one: Recreated) -> str:
        held = f"the one before held {plural(one.messages, 'message')} at its last poll"
        return f"{NAME}{report.name(one.ref)}{END} was created again at {date_clock(one.at_ms)}; {held}."

    return _first(report.recreated, sentence)


def _first(found: Sequence[T], sentence: Callable[[T], str]) -> list[str]:
    sentences = [sentence(one) for one in found[:DESCRIBED_MAX]]
    more = len(found) - len(sentences)
    return [*sentences, f"There were {count(more)} more."] if more > 0 else sentences


def _restart_sentence(restart: Restart) -> str:
    who = f"{NAME}{server_name(restart.server)}{END}"
    if not restart.is_restart:
        return f"Another server took over for {who} at {date_clock(restart.at_ms)}."
    was = f"{who} was restarted at {date_clock(restart.at_ms)}."
    if not restart.queues:
        return was
    were = "was" if restart.queues == 1 else "were"
    messages = plural(restart.messages, "message")
    return f"{was} {plural(restart.queues, 'queue')} {were} lost, with {messages} at the last poll before it."


def done_words(report: Report, change: AuditedChange) -> str:
    """Return what a change did."""
    return change.in_words(partial(when, report))


def incident_words(report: Report, change: AuditedChange) -> str:
    """Return in which incident a change was made, and how long after it that was over; empty if in none."""
    incident = report.during.get(change)
    if incident is None:
        return ""
    return f"{verdict_words(incident.worst)}, {outcome_words(change, incident, report.span.to_ms)}"


def _queues_of(report: Report, incident: Incident) -> str:
    """Return a sentence with the queues that an incident stands for, the worst first of many; empty if for none."""
    if incident.is_outage:
        return ""
    worst: dict[QueueRef, str] = {}
    for one in worst_first(report, report.parts(incident)):
        if one.ref is not None:
            worst.setdefault(one.ref, one.worst)
    named = [
        f"{NAME}{report.name(ref)}{END} ({_WAS.get(verdict, printable(verdict, 40))})"
        for ref, verdict in list(worst.items())[:_QUEUES_NAMED]
    ]
    if len(worst) > len(named):
        named.append(f"{count(len(worst) - len(named))} more")
    return f"In trouble: {_listed(named)}." if named else ""


def _changes_during(report: Report, incident: Incident) -> str:
    """Return a sentence with the changes that were made during an incident, the first ones of many; empty if none."""
    changes = report.changes_during(incident)
    if not changes:
        return ""
    named = [f"{_when_and_where(report, one)}, {done_words(report, one)}" for one in changes[:_NAMED_MAX]]
    more = f"; and {count(len(changes) - len(named))} more" if len(changes) > len(named) else ""
    return f"Changes made during it: {'; '.join(named)}{more}."


def _when_and_where(report: Report, change: AuditedChange) -> str:
    # A fix may be of no queue.
    where = f" in {NAME}{report.name(report.queue_of(change))}{END}" if change.queue else ""
    return f"at {date_clock(change.at_ms)}{where}"


def counted(report: Report) -> list[str]:
    """Return a sentence for each figure that contains a change."""
    return [_counted_sentence(report, one) for one in report.counted]


def _counted_sentence(report: Report, one: CountedChange) -> str:
    return one.sentence(f"{NAME}{report.name(one.ref)}{END}", range_words(one.span), date_clock(one.change.at_ms))


def before(report: Report) -> str:
    """Return what the figures are compared with; empty if that was not recorded."""
    return f"Before: {range_words(report.before)}." if report.before else ""


def incident_sentence(report: Report, incident: Incident) -> str:
    """Describe an incident in a few sentences; of one that reaches beyond the range, only what is in it."""
    who = f"{NAME}{report.subject(incident)}{END}"
    verdicts = [_WAS.get(verdict, printable(verdict, 40)) for verdict in incident.verdicts]
    is_several = incident.queue is None and not incident.is_outage and report.members(incident) > 1
    be = "were" if is_several else "was"
    times = 1 if is_several else len(report.times_in_trouble(incident))
    was = f"{be} {_listed(verdicts)}{f' {times} times' if times > 1 else ''}"
    span, lasted_ms = report.span, report.lasted_ms(incident)
    lasted = f"{duration(lasted_ms)}{' in all' if times > 1 else ''}{bounds_words(report.down_ms(incident))}"
    open_ones = report.ongoing(incident) if is_several else 0
    still = f"still {be}"
    if is_several and open_ones < report.members(incident):
        still = f"{count(open_ones)} of them still {'was' if open_ones == 1 else 'were'}"
    they = "they were" if is_several else "it was"
    after = "nothing was recorded" if incident.is_outage else f"{they} gone, or nothing was recorded"
    is_early, is_late = incident.start_ms < span.from_ms, incident.end_ms > span.to_ms
    if is_early and is_late:
        return f"{who} {was} for {'the whole range' if lasted_ms >= span.length_ms else f'{lasted} of the range'}."
    if is_early and incident.ended == OPEN:
        return f"{who} {was} when the range began, and {still} at the end of the history, {lasted} later."
    if is_early and incident.ended != "over":
        return f"{who} {was} when the range began, for at least {lasted} of it; after that {after}."
    if is_early:
        return f"{who} {was} when the range began, for {lasted} of it, until {date_clock(incident.end_ms)}."
    if is_late:
        return f"{who} {was} from {date_clock(incident.start_ms)} to the end of the range, for {lasted}."
    if incident.ended == "over":
        until = f"for {lasted}, from {date_clock(incident.start_ms)} to {date_clock(incident.end_ms)}"
    elif incident.ended == OPEN:
        until = f"since {date_clock(incident.start_ms)}, and {still} at the end of the history, {lasted} later"
    else:
        until = f"from {date_clock(incident.start_ms)} for at least {lasted}; after that {after}"
    why = f"{', the longest time' if times > 1 else ''}: {_sentence(incident.cause)}" if incident.cause else "."
    parts = [f"{who} {was} {until}{why}"]
    if incident.peak_depth is not None and incident.queue is not None:
        parts.append(f"Its depth reached {plural(incident.peak_depth, 'message')}.")
    if incident.affected:
        were = "was" if incident.affected == 1 else "were"
        least = "At least " if _is_at_least(incident) else ""
        parts.append(f"{least}{plural(incident.affected, 'message')} {were} affected.")
    parts.append(_recovery(report, incident, is_several=is_several))
    return " ".join(filter(None, parts))


def _listed(verdicts: Sequence[str]) -> str:
    return verdicts[0] if len(verdicts) == 1 else f"{', '.join(verdicts[:-1])} and {verdicts[-1]}"


def _recovery(report: Report, incident: Incident, *, is_several: bool) -> str:
    their, they_were = ("Their", "they were") if is_several else ("Its", "it was")
    if incident.ended != "over":
        return ""
    if incident.recovered_ms is None:
        return f"{their} recovery was not recorded."
    if incident.recovered_ms > report.span.to_ms:
        return f"{they_were.capitalize()} not ok again in this range."
    after_ms = incident.recovered_ms - incident.end_ms
    return (
        f"{they_were.capitalize()} ok again {duration(after_ms)} later."
        if after_ms > 0
        else f"Then {they_were} ok again."
    )


def recovered_words(report: Report, incident: Incident) -> str:
    """Return the recovery of an incident, for a table."""
    if incident.recovered_ms is not None and incident.recovered_ms <= report.span.to_ms:
        return when(report, incident.recovered_ms)
    members, goes_on = report.members(incident), report.ongoing(incident)
    if 0 < goes_on < members and not incident.is_outage:
        return f"{count(goes_on)} of {count(members)} ongoing"
    return "ongoing" if incident.is_ongoing(report.span.to_ms) else UNKNOWN


def affected(incident: Incident) -> str:
    """Return the number of affected messages of an incident, for a table."""
    return f"{count(incident.affected)}{' or more' if incident.affected and _is_at_least(incident) else ''}"


def _is_at_least(incident: Incident) -> bool:
    # How much a queue had grown before it got this verdict is not in older recordings.
    return Verdict.GROWING in incident.verdicts


def others(report: Report) -> str:
    """Return a note of the queues in trouble that have no charts; empty if there are none."""
    return f"{plural(report.others, 'more queue')} in trouble; see the tables." if report.others else ""


def most(report: Report, line: Line, section: Section | None = None) -> str:
    """Return the greatest value of a line of the chart of a queue, or of all together.

    The line of the depth consists of means, so the maximum of the samples is taken: the one that the table of queues
    has, or the bounds that ``fullest`` gives. A rate is a mean by nature, and is given with its time.
    """
    if line.metric == "depth":
        if section is not None:
            return count(section.depth_max)
        if report.fullest is None:
            return UNKNOWN
        return " to ".join(dict.fromkeys(map(count, (report.fullest.least, report.fullest.most))))
    highest = metric_value(line.metric, None if line.peak is None else line.peak[1])
    return f"{highest} over {_short(line.step_ms)}" if line.metric.endswith("_s") and line.peak else highest


def line_words(line: Line, what: str) -> str:
    """Describe a line, for screen readers."""
    known = [value for _, value in line.points if value is not None]
    if not known:
        return f"{what}: no data for this time."
    at_ms, highest = line.peak or (0, 0.0)
    say = [metric_value(line.metric, value) for value in (min(known), highest, known[-1])]
    gaps = sum(value is None for _, value in line.points)
    holes = f" There {'is 1 gap' if gaps == 1 else f'are {gaps} gaps'} in it." if gaps else ""
    return f"{what} between {say[0]} and {say[1]}, highest at {minute(at_ms)}, {say[2]} at the end.{holes}"


def fullest(report: Report) -> str:
    """Return when the total depth was highest; empty if nothing is known."""
    if report.fullest is None:
        return ""
    who = "queue's" if len(report.queues) == 1 else "total"
    least_at, most_at = minute(report.fullest.least_ms), minute(report.fullest.most_ms)
    least, most = compact(report.fullest.least), compact(report.fullest.most)
    if least == most:
        return f"The {who} depth peaked at {least_at}: about {least} messages."
    if least_at == most_at:
        return f"The {who} depth reached between {least} and {most} messages at {least_at}."
    return f"The {who} depth reached {least} messages at {least_at}; it may have reached {most} at {most_at}."


def poisoned(report: Report) -> str:
    """Return how many messages were received too often; empty if none were."""
    if not report.poison:
        return ""
    # A message that was moved is in the inventories of several queues.
    messages = {(one.ref.server, one.id) for one in report.poison}
    there = len({(one.ref.server, one.id) for one in report.poison if one.is_there})
    still = (
        f"; {count(there)} of them {'was' if there == 1 else 'were'} still there at the last inventory" if there else ""
    )
    who = f"{plural(len(messages), 'message')} of {plural(len({one.ref for one in report.poison}), 'queue')}"
    return f"{who} {'was' if len(messages) == 1 else 'were'} received too often{still}."


def uses(report: Report) -> list[str]:
    """Return a sentence for each objective that was missed: the incidents that used its error budget."""
    sentences = []
    for level, found in report.uses.items():
        if not found:
            continue
        uses = [
            f"{date_clock(use.incident.start_ms)} ({printable(use.incident.worst, 40)} for {duration(use.bad_ms)}, "
            f"{100 * use.share:,.0f} %)"
            for use in found
        ]
        subject = report.name(level.queue) if level.queue else server_name(level.subject)
        sentences.append(
            f"{NAME}{subject}{END}, {level.objective.target}: its error budget was used by {_listed(uses)}."
        )
    return sentences


def about(report: Report) -> list[str]:
    """Return sentences about the source of the numbers, and what is missing."""
    history = f" of the history {printable(report.history, 300)}" if report.history else ""
    sentences = [
        f"Made from the analysis {printable(report.label, 300)}{history}, as of {minute(report.made_ms)} UTC.",
        f"It covers {range_words(report.whole)}. All times are UTC, by the clock of the Redis server.",
        "A gap in a line means that nothing was recorded at that time, or that the queue did not exist, like a list "
        "while it is empty. Lines consist of the steps that lie completely in the range.",
        "An incident is trouble of one queue without long pauses; incidents that began together in one server count as "
        "one. It ends when its condition stopped holding. Time to recovery is from the start of the incident of a "
        "queue, or the first failed poll of an outage, until it was over; each queue and each outage counts.",
    ]
    if report.changes:
        sentences.append(
            "Changes are those made with rsmq-tui, as far as they are in the audit logs that were read. The recorded "
            "counters include them: rates, arrivals and deletes are of producers, consumers and changes together."
        )
    return [*sentences, *(f"Missing: {printable(problem, 300)}" for problem in report.problems)]


def _sentence(text: str) -> str:
    shown = printable(text, CAUSE_MAX)
    return shown if shown.endswith((".", "…", "!", "?")) else f"{shown}."

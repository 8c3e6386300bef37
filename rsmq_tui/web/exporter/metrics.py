"""The Prometheus metrics of a poll: names, units and labels. Alert rules depend on them, so they do not change.

The metrics of queues are written here: 20,000 queues have 460,000 samples, for which prometheus_client takes 15 times
as long. It writes all others.

Times are in seconds, sizes in bytes. A server that did not answer has no queue metrics, because its last values may be
outdated. Counters are the queues' own: they continue when the exporter restarts, and fall only when a queue is deleted
and recreated, which Prometheus treats as a counter reset.

All series of a list queue have the label ``kind="list"``; those of RSMQ queues have no ``kind``. What cannot be counted
for a list has no series.
"""

import hashlib
import math
import platform
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from rsmq_tui import __version__
from rsmq_tui.monitor import QueueState, Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol.keys import name_bytes
from rsmq_tui.protocol.kinds import RSMQ, is_among, kind_named, kind_of
from rsmq_tui.web.exporter.poller import NOT_YET, Reading, Target

# Prometheus and its storage can be configured to refuse a whole scrape for one long label value; 2,048 is usual.
LABEL_MAX = 256
_DIGEST_CHARACTERS = 32


def label_value(name: str) -> str:
    r"""Return the label value for a name.

    A printable name stands for itself. Any other is written byte by byte, with ``\xNN`` for the backslash and for bytes
    that are not printable ASCII. Every name has its own value: two series with the same labels would break the scrape.
    A value longer than ``LABEL_MAX`` characters is cut, and ends in a digest of the name.
    """
    is_harmless = "\\" not in name and printable(name) == name
    value = name if is_harmless else "".join(map(_spelled, name_bytes(name)))
    if len(value) <= LABEL_MAX:
        return value
    # The cut value is longer than LABEL_MAX, so it differs from any value that was not cut.
    return f"{value[:LABEL_MAX]}…{hashlib.sha256(name_bytes(name)).hexdigest()[:_DIGEST_CHARACTERS]}"


def spelled(name: str) -> str:
    r"""Return another label value for a printable name whose usual value is taken: its first byte is ``\xNN``.

    It is unique: ``label_value`` escapes only bytes that are not printable ASCII, and the backslash.
    """
    first, *rest = name_bytes(name)
    return f"\\x{first:02x}{''.join(map(_spelled, rest))}"


def _spelled(byte: int) -> str:
    return chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x5C else f"\\x{byte:02x}"


TARGET_LABELS = ("profile", "server", "ns")
_UNITS = ("seconds", "bytes")
_TOTAL = "_total"


class _Poll(NamedTuple):
    """What samples depend on besides their queue: the server's time in ms, and the expected troubles of its profile."""

    at_ms: int
    expected: Expected


# The sample of a queue in a poll, None for no sample.
_Value = Callable[[QueueState, _Poll], float | None]


class _QueueMetric(NamedTuple):
    """A metric of queues; one with several samples for each queue has a value for each further label and comma."""

    name: str
    words: str
    value: _Value | Mapping[str, _Value]

    def header(self, *, is_openmetrics: bool) -> str:
        """Return the lines before the samples."""
        kind = "counter" if self.name.endswith(_TOTAL) else "gauge"
        name = self.name.removesuffix(_TOTAL) if is_openmetrics else self.name
        unit = f"# UNIT {name} {_unit(name)}\n" if is_openmetrics and _unit(name) else ""
        return f"# HELP {name} {self.words}\n# TYPE {name} {kind}\n{unit}"


def _of_first_ready(span_ms: Callable[[QueueState, int], int | None]) -> _Value:
    """Return the function of a span of the first ready message, in seconds: 0 if none is ready."""
    return lambda queue, poll: 0.0 if queue.ready == 0 else _seconds(span_ms(queue, poll.at_ms))


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _counted(total: int | None) -> int | None:
    """Return a counter, or None if a client wrote a negative one, for which Prometheus rejects the scrape."""
    return None if total is None or total < 0 else total


def _is_verdict(verdict: Verdict) -> _Value:
    return lambda queue, _: int(queue.verdict is verdict)


def _of_flight(name: str) -> _Value:
    """Return the function of one of the times of messages in flight that were looked at last, in seconds."""
    ms_of = attrgetter(name)
    return lambda queue, poll: None if (times := queue.times_at(poll.at_ms)) is None else _seconds(ms_of(times))


def _has_counts(queue: QueueState) -> bool:
    """Return whether the queue has receive counts that can be read; list items have none."""
    return kind_named(queue.kind).counts_receives and queue.depth is not None and not queue.broken


_QUEUE_METRICS = (
    _QueueMetric(
        "rsmq_queue_depth_messages",
        "Messages stored in the queue; of a list, the items in it and in its processing list.",
        lambda queue, _: queue.depth,
    ),
    _QueueMetric("rsmq_queue_ready_messages", "Messages that a consumer would get now.", lambda queue, _: queue.ready),
    _QueueMetric(
        "rsmq_queue_hidden_messages",
        "Messages in flight or delayed: not visible yet; of a list, the items in its processing list.",
        lambda queue, _: queue.hidden,
    ),
    _QueueMetric(
        "rsmq_queue_expired_leases",
        "Leases of a list queue past their deadline: items that a reaper has not returned yet.",
        lambda queue, _: queue.expired,
    ),
    _QueueMetric(
        "rsmq_queue_oldest_ready_age_seconds",
        "Time since the first ready message was sent; 0 if none is ready, absent if it is unknown.",
        _of_first_ready(QueueState.oldest_ready_age_ms),
    ),
    _QueueMetric(
        "rsmq_queue_oldest_ready_waiting_seconds",
        "Time since the first ready message became due; 0 if none is ready, absent if it is unknown.",
        _of_first_ready(QueueState.waiting_ms),
    ),
    _QueueMetric(
        "rsmq_queue_limit_seconds",
        "Time until the queue reaches its depth limit, its first message counts as aged or, if it grows, the memory of "
        "the server is full, at the higher rates of the last ten minutes; absent for no limit, or if it is unknown.",
        lambda queue, poll: None if queue.limit is None else queue.limit.until_ms(poll.at_ms)[0] / 1000,
    ),
    _QueueMetric(
        "rsmq_queue_poison_messages",
        "Messages received too often, among those checked so far: a few in each poll.",
        lambda queue, _: queue.poison if _has_counts(queue) else None,
    ),
    _QueueMetric(
        "rsmq_queue_highest_receives",
        "Highest receive count among the messages checked so far.",
        lambda queue, _: queue.highest_rc if _has_counts(queue) else None,
    ),
    _QueueMetric(
        "rsmq_queue_problems",
        "Unusual values in the queue's keys, as other clients write them; rsmq-tui explains each.",
        lambda queue, _: len(queue.problems) + bool(queue.broken),
    ),
    _QueueMetric(
        "rsmq_queue_vt_seconds", "Attribute vt: how long a received message stays hidden.", lambda queue, _: queue.vt_s
    ),
    _QueueMetric(
        "rsmq_queue_delay_seconds",
        "Attribute delay: how long a new message stays hidden.",
        lambda queue, _: queue.delay_s,
    ),
    _QueueMetric(
        "rsmq_queue_maxsize_bytes",
        "Attribute maxsize: longest body that is accepted; +Inf if there is no limit.",
        lambda queue, _: math.inf if queue.maxsize == -1 else queue.maxsize,
    ),
    _QueueMetric(
        "rsmq_queue_created_timestamp_seconds",
        "When the queue was created, as its creator wrote it.",
        lambda queue, _: _seconds(queue.created_ms),
    ),
    _QueueMetric(
        "rsmq_queue_modified_timestamp_seconds",
        "When the queue's attributes were last changed, as that client wrote it.",
        lambda queue, _: _seconds(queue.modified_ms),
    ),
    _QueueMetric(
        "rsmq_queue_wait_seconds",
        "How long messages in flight waited for their first receive, of a sample of the last minute.",
        {'quantile="0.5",': _of_flight("wait_p50_ms"), 'quantile="0.95",': _of_flight("wait_p95_ms")},
    ),
    _QueueMetric(
        "rsmq_queue_work_seconds",
        "Time since the last receive of messages in flight, of a sample of the last minute.",
        {'quantile="0.5",': _of_flight("work_p50_ms"), 'quantile="0.95",': _of_flight("work_p95_ms")},
    ),
    _QueueMetric(
        "rsmq_queue_verdict",
        "1 for the current verdict of the queue, 0 for the others.",
        {f'verdict="{verdict}",': _is_verdict(verdict) for verdict in Verdict},
    ),
    _QueueMetric(
        "rsmq_queue_expected",
        "1 for a queue that the profile's `ignore` names, whose trouble is expected; absent for the others.",
        lambda queue, poll: 1 if poll.expected.holds(queue.name, queue.kind) else None,
    ),
    _QueueMetric(
        "rsmq_queue_sent_messages_total",
        "Messages sent since the queue was created; absent if the queue does not count them.",
        lambda queue, _: _counted(queue.totalsent),
    ),
    _QueueMetric(
        "rsmq_queue_received_messages_total",
        "Receives since the queue was created; a message received twice counts twice.",
        lambda queue, _: _counted(queue.totalrecv),
    ),
)


def queue_metrics(
    readings: Iterable[Reading], *, is_openmetrics: bool, queues: Sequence[str] = (), names: Container[str] = ()
) -> Iterator[bytes]:
    """Yield the text of the metrics of queues in parts, in OpenMetrics or in the text format of Prometheus.

    ``queues`` are the names or patterns of the wanted queues, and ``names`` the wanted metrics; empty for all.
    """
    found = [each for reading in readings for each in _labelled(reading, queues)]
    for metric in _QUEUE_METRICS:
        if names and metric.name not in names:
            continue
        yield metric.header(is_openmetrics=is_openmetrics).encode()
        for label, value_of in (metric.value if isinstance(metric.value, Mapping) else {"": metric.value}).items():
            start = f"{metric.name}{{{label}"
            lines = [
                f"{start}{labels}}} {_number(value)}\n"
                for queue, labels, poll in found
                if (value := value_of(queue, poll)) is not None
            ]
            yield "".join(lines).encode()


def _labelled(reading: Reading, queues: Sequence[str]) -> Iterator[tuple[QueueState, str, _Poll]]:
    """Yield the wanted queues, with their labels and what else their samples depend on; none of one that is down."""
    if (snapshot := reading.current) is None:
        return
    of_target = dict(zip(TARGET_LABELS, _labels(reading.target), strict=True))
    poll = _Poll(snapshot.at_ms, reading.target.expected)
    for queue in snapshot.queues:
        if not queues or is_among(queue.name, kind_named(queue.kind), queues, ns=snapshot.ns):
            # The series of RSMQ queues have no ``kind``, as in earlier versions.
            kind = {} if queue.kind == RSMQ.name else {"kind": queue.kind}
            labels = of_target | {"queue": label_value(queue.name)} | kind
            yield queue, ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()), poll


def _escaped(value: str) -> str:
    """Escape a label value, which has no line breaks."""
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _number(value: float) -> str:
    return "+Inf" if value == math.inf else str(value)


class ReadingsCollector(Collector):
    """Collects the metrics of the targets of some readings, without those of queues."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = tuple(readings)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric; one without a sample is yielded too, so that its name and meaning can be read."""
        yield _build_info()
        yield from _of_targets(self._readings)


def registry_of(readings: Iterable[Reading]) -> CollectorRegistry:
    """Return a registry of the metrics of the readings' targets, and of what this process uses."""
    # Collectors without names: nothing is collected only to learn the names, and ?name[]= still works.
    registry = CollectorRegistry(support_collectors_without_names=True)
    registry.register(ReadingsCollector(readings))
    ProcessCollector(registry=registry)
    return registry


def _build_info() -> Metric:
    family = GaugeMetricFamily(
        "rsmq_exporter_build_info", "The exporter's version; always 1.", labels=("version", "python_version")
    )
    family.add_metric((__version__, platform.python_version()), 1)
    return family


def _of_targets(readings: tuple[Reading, ...]) -> Iterator[Metric]:
    up = _gauge("rsmq_up", "Whether the server answered the last poll; absent before the first.", TARGET_LABELS)
    queues = _gauge("rsmq_queues", "Queues in the namespace, or known lists.", TARGET_LABELS)
    last = _gauge(
        "rsmq_last_poll_timestamp_seconds", "Time of the last successful poll, by the server's clock.", TARGET_LABELS
    )
    round_trip = _gauge("rsmq_poll_round_trip_seconds", "Round trip of the last successful poll.", TARGET_LABELS)
    duration = SummaryMetricFamily(
        "rsmq_poll_duration_seconds", "Duration of successful polls.", labels=TARGET_LABELS, unit="seconds"
    )
    sent = _counter(
        "rsmq_poll_bytes_total", "Bytes that successful polls transferred, in both directions.", TARGET_LABELS
    )
    commands = _counter("rsmq_poll_commands_total", "Commands that successful polls sent.", TARGET_LABELS)
    failures = _counter("rsmq_poll_failures_total", "Failed polls, by kind of failure.", (*TARGET_LABELS, "kind"))
    used = _gauge("rsmq_server_used_memory_bytes", "Memory that the server uses, by INFO.", TARGET_LABELS)
    most = _gauge("rsmq_server_maxmemory_bytes", "The server's maxmemory; absent if it is not set.", TARGET_LABELS)
    full = _gauge(
        "rsmq_server_memory_full_seconds",
        "Time until the memory of the server is full, at the higher rates of the last ten minutes; absent if it is not "
        "filling, or if that is unknown.",
        TARGET_LABELS,
    )
    for reading in readings:
        labels, tally = _labels(reading.target), reading.tally
        if reading.failure is not NOT_YET:
            up.add_metric(labels, reading.failure is None)
        duration.add_metric(labels, tally.polls, tally.seconds)
        sent.add_metric(labels, tally.bytes)
        commands.add_metric(labels, tally.commands)
        for kind, number in tally.failures.items():
            failures.add_metric((*labels, label_value(kind)), number)
        if reading.snapshot is not None:
            last.add_metric(labels, reading.snapshot.at_ms / 1000)
        if (snapshot := reading.current) is not None:
            queues.add_metric(labels, len(snapshot.queues))
            round_trip.add_metric(labels, snapshot.cost.round_trip_ms / 1000)
            if snapshot.info is not None and snapshot.info.used_memory:
                used.add_metric(labels, snapshot.info.used_memory)
            if snapshot.info is not None and snapshot.info.maxmemory:
                most.add_metric(labels, snapshot.info.maxmemory)
            if snapshot.memory_limit is not None:
                full.add_metric(labels, snapshot.memory_limit.until_ms(snapshot.at_ms)[0] / 1000)
    yield from (up, queues, last, round_trip, duration, sent, commands, failures, used, most, full)


def _labels(target: Target) -> tuple[str, ...]:
    ns = label_value(target.ns)
    if kind_of(target.ns).name != target.kind:
        # Two series with the same labels would break the scrape.
        ns = spelled(target.ns)
    return label_value(target.profile), label_value(target.server), ns


def _gauge(name: str, words: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, labels=labels, unit=_unit(name))


def _counter(name: str, words: str, labels: tuple[str, ...]) -> CounterMetricFamily:
    return CounterMetricFamily(name, words, labels=labels, unit=_unit(name.removesuffix(_TOTAL)))


def _unit(name: str) -> str:
    return next((unit for unit in _UNITS if name.endswith(f"_{unit}")), "")

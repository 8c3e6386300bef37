"""Changing 100,000 messages that match a filter, from the look to the last answer, against a loop over PyRSMQ."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import parse_filter
from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.actions import Delete, Hide, MessageAction, Move
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Matching
from rsmq_tui.triage.service import ChangeService
from tests.bench.measure import ProcessorTimes, Sample, interleave
from tests.bench.queues import NS, bodies
from tests.bench.row import Measured, Row, Run, Sense

_QUEUE, _TARGET, _PEER = "jobs", "parked", "peer"
_MATCHING, _OTHERS, _PEER_MESSAGES = 100_000, 10_000, 2_000
_FILTER = "body:chargeback"
_LONGEST_MS = 5.0
_LOGGED_US = 500


@dataclass(frozen=True, slots=True)
class _Scene:
    """A server, a client of ours on it, and where the journal is."""

    server: EmbeddedServer
    client: redis.Redis
    rsmq: Rsmq
    folder: Path

    def fill(self, run: Run) -> int:
        """Fill our queue anew, and return how many of its messages match."""
        matching = run.size(_MATCHING, 400)
        self._empty(_QUEUE)
        self._empty(_TARGET)
        some = bodies(matching + run.size(_OTHERS, 40))
        marked = (b'{"type":"chargeback",' + body[1:] for body in some[:matching])
        self.rsmq.send_messages(_QUEUE, marked)
        self.rsmq.send_messages(_QUEUE, some[matching:])
        return matching

    def fill_peer(self, run: Run) -> list[str]:
        """Fill the peer's queue anew, and return the ids."""
        self._empty(_PEER)
        return self.rsmq.send_messages(_PEER, bodies(run.size(_PEER_MESSAGES, 40)))

    def peer(self) -> Any:
        """Return a PyRSMQ on a client of its own making, as its users have it."""
        from rsmq import RedisSMQ

        return RedisSMQ(host="127.0.0.1", port=self.server.port, ns=NS)

    def _empty(self, queue: str) -> None:
        # The keys go at once: what is left for later would be paid for by whoever is measured next.
        self.client.delete(f"{NS}:{queue}")
        self.client.delete(f"{NS}:{queue}:Q")
        self.client.srem(f"{NS}:QUEUES", queue)
        self.rsmq.create_queue(queue, vt=3600)


@contextmanager
def _scene() -> Iterator[_Scene]:
    with (
        EmbeddedServer() as server,
        redis.Redis(host="127.0.0.1", port=server.port) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        yield _Scene(server, client, Rsmq(client, ns=NS), Path(folder))


async def _change(scene: _Scene, action: MessageAction, matching: int) -> float:
    """Preview and carry out an action, and return how many microseconds a message took."""
    return await _timed(scene, matching, lambda triage: triage.preview(action, Matching(parse_filter(_FILTER))))


async def _undo(scene: _Scene, matching: int) -> float:
    """Preview and carry out the undo of the last change, and return how many microseconds a message took."""
    return await _timed(scene, matching, ChangeService.preview_undo)


async def _timed(scene: _Scene, matching: int, preview: Callable[[ChangeService], Awaitable[Any]]) -> float:
    triage = ChangeService(RsmqBackend(scene.server.url, NS), scene.folder)
    try:
        started_s = time.perf_counter()
        report = await triage.run(await preview(triage)).to_end()
        taken_s = time.perf_counter() - started_s
    finally:
        await triage.aclose()
    if report.tally.done != matching:
        raise RuntimeError(report.sentence)
    return taken_s * 1e6 / matching


Loop = Callable[[Any, list[str]], None]


def _delete_loop(peer: Any, ids: list[str]) -> None:
    for id in ids:
        peer.deleteMessage(qname=_PEER, id=id).execute()


def _hide_loop(peer: Any, ids: list[str]) -> None:
    for id in ids:
        peer.changeMessageVisibility(qname=_PEER, id=id, vt=300).execute()


def _move_loop(peer: Any, ids: list[str]) -> None:
    """Move as one can with the protocol alone: receive, send, delete."""
    for _ in ids:
        message = peer.receiveMessage(qname=_PEER).execute()
        peer.sendMessage(qname=_TARGET, message=message["message"]).execute()
        peer.deleteMessage(qname=_PEER, id=message["id"]).execute()


def _row(name: str, action: MessageAction, loop: Loop) -> Row:
    def measure(run: Run) -> Measured:
        with _scene() as scene:
            peer, processor = scene.peer(), ProcessorTimes(scene.client)

            def ours() -> Sample:
                matching = scene.fill(run)
                return processor.of("ours", lambda: asyncio.run(_change(scene, action, matching)), matching)

            def other() -> Sample:
                ids = scene.fill_peer(run)

                def timed() -> float:
                    started_s = time.perf_counter()
                    loop(peer, ids)
                    return (time.perf_counter() - started_s) * 1e6 / len(ids)

                return processor.of("other", timed, len(ids))

            measured = interleave(run, ours, other, pairs=5, warm_up=1, limit_s=40)
            return replace(measured, note=processor.note(Sense.TIMES_LESS))

    return Row(name, "PyRSMQ one by one", "us/message", Sense.TIMES_LESS, 15, measure)


def _undoing(run: Run) -> Measured:
    """Delete what matches and take that back, each beside the other."""
    with _scene() as scene:
        processor = ProcessorTimes(scene.client)

        def undo() -> Sample:
            matching = scene.fill(run)
            asyncio.run(_change(scene, _DELETE, matching))
            return processor.of("ours", lambda: asyncio.run(_undo(scene, matching)), matching)

        def delete() -> Sample:
            matching = scene.fill(run)
            return processor.of("other", lambda: asyncio.run(_change(scene, _DELETE, matching)), matching)

        measured = interleave(run, undo, delete, pairs=5, warm_up=1, limit_s=40)
        return replace(measured, note=processor.note(Sense.AT_MOST))


def _longest_beside_pings(run: Run) -> Measured:
    """Delete, hide, move and undo, then send PINGs for as long as the server worked: a stall meets both alike."""
    longest_ms, calls, worked_s = dict[str, float](), 0, 0.0
    with _scene() as scene:
        scene.client.config_set("latency-tracking-info-percentiles", "100")
        for action in _ACTIONS:
            matching = scene.fill(run)
            scene.client.config_resetstat()
            asyncio.run(_change(scene, action, matching))
            if action is _DELETE:
                asyncio.run(_undo(scene, matching))
            found = _longest_ms(scene)
            longest_ms = {name: max(found.get(name, 0), longest_ms.get(name, 0)) for name in {*found, *longest_ms}}
            # What a script calls counts too, but not as a call of its own.
            text = scene.client.info("commandstats")["cmdstat_evalsha"]
            calls, worked_s = calls + int(text["calls"]), worked_s + text["usec"] / 1e6
        scene.client.config_resetstat()
        answered_ms, pings, ends_s = 0.0, 0, time.perf_counter() + worked_s
        while pings < calls or time.perf_counter() < ends_s:
            answered_ms, pings = max(answered_ms, _timed_ms(scene.client.ping)), pings + 1
        ping_ms = _longest_ms(scene)["ping"]
    name = max(longest_ms, key=longest_ms.__getitem__)
    note = f"{calls:,} calls, the longest is {name}; {pings:,} PINGs, up to {ping_ms:.3f} ms of the server's time"
    return Measured(longest_ms[name], answered_ms, note)


def _longest_ms(scene: _Scene) -> dict[str, float]:
    """Return how long the longest call of each command took on the server, but for those of administration."""
    text = scene.client.info("latencystats").items()
    found = {name.removeprefix("latency_percentiles_usec_"): values["p100"] / 1000 for name, values in text}
    return {name: value for name, value in found.items() if not name.startswith(("config", "info", "slowlog"))}


def _longest_call(run: Run) -> Measured:
    """Delete, hide and move once each, and look up the longest calls."""
    durations_ms: list[float] = []
    with _scene() as scene:
        scene.client.config_set("slowlog-log-slower-than", _LOGGED_US)
        scene.client.config_set("slowlog-max-len", 100_000)
        for action in _ACTIONS:
            matching = scene.fill(run)
            scene.client.slowlog_reset()
            asyncio.run(_change(scene, action, matching))
            durations_ms += _logged_ms(scene)
        usual_ms = median(durations_ms or [0.0])
        idle_ms = _longest_of_the_machine(scene, len(durations_ms), usual_ms)
    note = (
        f"{len(durations_ms):,} calls of over {_LOGGED_US / 1000:g} ms, half of them below {usual_ms:.2f} ms; as many "
        f"that only count for so long took up to {idle_ms:.1f} ms"
    )
    return Measured(max(_LOGGED_US / 1000, *durations_ms), _LONGEST_MS, note)


def _longest_of_the_machine(scene: _Scene, calls: int, usual_ms: float) -> float:
    """Return the longest of as many calls that do nothing but count for a while: what the machine adds to any call."""
    count = scene.client.register_script("for n = 1, tonumber(ARGV[1]) do end")
    rounds = 1_000
    while (taken_ms := _timed_ms(partial(count, args=[rounds]))) < usual_ms:
        rounds = round(rounds * max(1.1, min(10, usual_ms / taken_ms)))
    scene.client.slowlog_reset()
    for _ in range(calls):
        count(args=[rounds])
    return max(_logged_ms(scene), default=0.0)


def _logged_ms(scene: _Scene) -> list[float]:
    return [entry["duration"] / 1000 for entry in scene.client.slowlog_get(100_000)]


def _timed_ms(call: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    call()
    return (time.perf_counter() - started_s) * 1000


_DELETE = Delete(queue=_QUEUE)
_HIDE = Hide(queue=_QUEUE, seconds=300)
_MOVE = Move(queue=_QUEUE, target=_TARGET)
_ACTIONS: tuple[MessageAction, ...] = (_DELETE, _HIDE, _MOVE)

ROWS = (
    _row("delete 100,000 messages by filter", _DELETE, _delete_loop),
    _row("hide 100,000 messages by filter", _HIDE, _hide_loop),
    _row("move 100,000 messages by filter", _MOVE, _move_loop),
    Row("undo of 100,000 deleted messages", "their deletion", "us/message", Sense.AT_MOST, 1.5, _undoing),
    Row(
        "delete, hide, move, undo, longest call beside PINGs",
        "the longest of as many PINGs or more, until answered",
        "ms",
        Sense.AT_MOST,
        1.5,
        _longest_beside_pings,
    ),
    Row("delete, hide, move, longest server call", "5 ms", "ms", Sense.AT_MOST, 1.0, _longest_call),
)

"""A kind of queue on the command line: with a place of it, commands read, check and change its queues."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis

from rsmq_tui.cli import places
from rsmq_tui.cli.main import main
from rsmq_tui.cli.output import ProgressLine
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.checks import Checked, Limits, Scanned, begun
from rsmq_tui.monitor.server import CheckResult, ok
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import Address
from rsmq_tui.protocol.kinds import KINDS, RSMQ
from rsmq_tui.triage.service import Backend
from tests.kinds.toy import TOY, ToyBackend, ToyPoller

QUEUE, NAMED = "toys:wood", "toy:toys:wood"

Run = Callable[..., tuple[int, list[dict[str, Any]], str]]


class ToyPlace(places.KindPlace):
    kind = TOY
    url = ""

    @property
    def title(self) -> str:
        return "toys"

    def poller(self, name: str = "", memory: Path | None = None) -> Any:
        return ToyPoller(self.url, [QUEUE], place=name)

    async def poll_once(self, line: ProgressLine | None = None) -> Snapshot:
        poller = self.poller()
        try:
            found: Snapshot = await poller.poll()
            return found
        finally:
            await poller.aclose()

    def backend(self) -> Backend:
        return ToyBackend(self.url)

    async def refuse_missing(self, queue: str) -> None:
        return

    async def missing(self, queues: Sequence[str]) -> list[str]:
        return [queue for queue in queues if queue != QUEUE]

    async def check(self, limits: Limits, scanned: Scanned) -> Checked:
        return begun(self.server, self.ns, self.profile.thresholds)

    async def diagnose(self, timeout_s: float) -> AsyncIterator[CheckResult]:
        yield ok("toys", "there are toys")


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    redis_url: str,
    client: redis.Redis,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    monkeypatch.setitem(KINDS, TOY.name, TOY)
    monkeypatch.setattr(ToyPlace, "url", redis_url)
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    client.zadd(QUEUE, {"ball": 1, "kite": 2, "train": 9_999_999_999_999})

    def command(*arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        status = main(["-r", redis_url, *arguments])
        out, err = capsys.readouterr()
        return status, [json.loads(line) for line in out.splitlines()], err

    return command


def test_its_messages_are_read(run: Run, redis_url: str) -> None:
    status, lines, _ = run("messages", "list", NAMED, "--filter", "state:ready")
    assert (status, [line["id"] for line in lines]) == (0, ["ball", "kite"])
    status, lines, _ = run("messages", "get", NAMED, "train")
    assert (status, lines[0]["body"], lines[0]["state"]) == (0, "train", "delayed")
    assert run("messages", "export", NAMED)[::2] == (
        2,
        f"rsmq-tui: {QUEUE} on {Address(redis_url).label}: toys are not exported\n",
    )


def test_it_is_changed_and_the_last_change_undone(run: Run, client: redis.Redis) -> None:
    status, (preview,), _ = run("messages", "delete", NAMED, "--id", "ball")
    assert (status, preview["planned"], preview["queue"], preview["ns"]) == (3, 1, NAMED, "(toys)")
    status, (report,), _ = run("messages", "delete", NAMED, "--id", "ball", "--yes")
    assert (status, report["done"], client.zcard(QUEUE)) == (0, 1, 2)
    status, (undone,), _ = run("undo", "--yes")
    assert (status, undone["done"], client.zcard(QUEUE)) == (0, 1, 3)


def test_what_its_kind_cannot_do_is_refused(run: Run) -> None:
    assert run("queues", "create", NAMED)[::2] == (
        2,
        "rsmq-tui: create is for RSMQ queues: a list exists only while it holds items\n",
    )
    assert run("messages", "pop", NAMED)[2].startswith("rsmq-tui: pop is for list queues")
    status, _, err = run("messages", "delete", NAMED, "--all", "--even-if-received")
    assert (status, err) == (2, "rsmq-tui: --even-if-received is for queues of RSMQ: a list counts no receives\n")
    assert run("queues", "purge", NAMED)[2].endswith("toys can only be deleted\n")


def test_who_works_on_it_is_not_known(run: Run) -> None:
    assert run("who", NAMED)[::2] == (2, "rsmq-tui: it is not known who works on toys\n")


def test_a_named_queue_of_it_is_audited(run: Run) -> None:
    status, lines, err = run("audit", "--queue", NAMED)
    assert (status, lines, err) == (0, [], "rsmq-tui: 1 queue, 0 messages and fields checked: nothing found\n")


def test_a_place_is_what_the_kind_says(redis_url: str, run: Run) -> None:
    profile = Profile("", Address(redis_url))
    assert isinstance(places.place_of(profile, "(toys)"), ToyPlace)
    assert places.place_of(profile, "(toys)", RSMQ).kind is RSMQ
    assert [place.kind.name for place in places.places_of(profile)] == ["rsmq"]

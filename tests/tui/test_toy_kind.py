"""A toy kind of queue in the dashboard, beside RSMQ's, with one entry in the table of kinds and nothing else."""

from functools import partial
from pathlib import Path

import pytest
import redis

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.protocol.kinds import KINDS
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.servers import WatchedServer
from tests.kinds.toy import TOY, ToyBackend, ToyPoller
from tests.tui.changing import made, say_yes
from tests.tui.driving import press, says, until
from tests.tui.reading import app_of, names_in, table_of, text_of

QUEUE = "toys:wood"


async def test_it_is_shown_read_and_changed(
    redis_url: str, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, TOY.name, TOY)
    Rsmq(client).create_queue("orders")
    client.zadd(QUEUE, {"ball": 1, "kite": 2})
    make_triage = partial(ChangeService, ToyBackend(redis_url), tmp_path)
    rsmq, toys = RsmqPoller(RsmqReader(redis_url), place="rsmq"), ToyPoller(redis_url, [QUEUE], place="toys")
    watched_toys = WatchedServer(toys, place="toys", ns=TOY.ns, make_triage=make_triage)
    app = RsmqApp([WatchedServer(rsmq, place="rsmq"), watched_toys])

    async with app.run_test(size=(170, 40), notifications=True) as pilot:
        await until(pilot, lambda: len(names_in(pilot)) == 2, "both queues are shown")
        table = table_of(pilot)
        table.place_cursor([row.name for row in table.rows].index(QUEUE))
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen), "the queue opens")
        await until(pilot, lambda: names_in(pilot) == ["ball", "kite"], "its messages are shown")
        assert "a zset of bodies" in text_of(app_of(pilot))
        assert "P purge" not in text_of(app_of(pilot))
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, MessageScreen), "the first message opens")
        await says(pilot, "ball")
        await press(pilot, "x")
        await say_yes(pilot)
        assert "deleted 1" in await made(pilot)
        assert client.zrange(QUEUE, 0, -1) == [b"kite"]
        await press(pilot, "u")
        await say_yes(pilot)
        assert "put back 1" in await made(pilot)
        assert client.zcard(QUEUE) == 2

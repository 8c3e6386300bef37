"""The rounds with real processes: each takes seconds, and its faults come at a random reply of the server.

Everything that a change took away must be there after recovery and an undo, except what a consumer has taken meanwhile.
When what happens is up to other processes, a seed does not fix it all: replay a violation several times.
"""

import asyncio
import errno
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import Address, Node, RsmqReader, Sentinels, slot_of, url_of
from rsmq_tui.protocol.editing import Batch
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.triage import actions
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Everything
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.servers import WatchedServer
from tests.chaos.laws import Violation
from tests.chaos.rounds import Result
from tests.cli.running import PROGRAM, environment
from tests.history.made import left_over, rows_of
from tests.hostile.proxy import Proxy
from tests.hostile.watching import Dashboard, dashboard, dashboard_app, open_message, open_queue, press, text_of, until
from tests.servers.real import HOST, RealServer, cluster, real_server, watched
from tests.tui.changing import ask_change
from tests.waiting import SECONDS_MAX, wait_until

MESSAGES = 1_500
_PREVIEW_S = 20.0
_UNDOS_MAX = 10
# What a screen says of old numbers, or that there are none.
_AGE = re.compile(r"stale \d+ (s|min|h)|no data yet")
_VERBS: dict[str, tuple[str, ...]] = {
    "delete": ("messages", "delete", "a"),
    "hide": ("messages", "hide", "a", "--for", "1000s"),
    "move": ("messages", "move", "a", "--to", "b"),
}
_ACTIONS: dict[str, actions.Action] = {
    "delete": actions.Delete(queue="a"),
    "hide": actions.Hide(queue="a", seconds=1000),
    "move": actions.Move(queue="a", target="b"),
}

Found = dict[tuple[str, bytes], tuple[float, bytes | None, bytes | None, bytes | None]]


def found(client: Redis, ns: str = "rsmq") -> Found:
    """Return all messages, as plain commands find them."""
    messages: Found = {}
    for queue in "ab":
        fields = client.hgetall(f"{ns}:{queue}:Q")
        for id, score in client.zrange(f"{ns}:{queue}", 0, -1, withscores=True):
            messages[queue, id] = score, fields.get(id), fields.get(id + b":rc"), fields.get(id + b":fr")
    return messages


def lay(client: Redis, chance: random.Random, ns: str = "rsmq") -> Found:
    """Put messages into queue a, and return all."""
    seconds = client.time()[0]
    with client.pipeline(transaction=False) as asked:
        for queue in "ab":
            fields = {"vt": 30, "delay": 0, "maxsize": 65536, "totalsent": 0, "totalrecv": 0}
            asked.hset(f"{ns}:{queue}:Q", mapping={**fields, "created": seconds, "modified": seconds})
            asked.sadd(f"{ns}:QUEUES", queue)
        for number in range(MESSAGES):
            id = b"hq%08d" % number + b"x" * 22
            asked.zadd(f"{ns}:a", {id: (seconds - 1000) * 1000 + number})
            asked.hset(f"{ns}:a:Q", id, b"body %d" % number)
            if chance.random() < 0.2:
                asked.hset(f"{ns}:a:Q", mapping={id + b":rc": 3, id + b":fr": (seconds - 500) * 1000})
        asked.execute()
    return found(client, ns)


class _At:
    """Does something when so many replies have come back through a proxy, before or after the last of them."""

    def __init__(self, number: int, do: Callable[[], object], *, passes: bool) -> None:
        self.left, self._do, self._passes = number, do, passes

    def __call__(self, data: bytes) -> tuple[bytes, bool]:
        self.left -= 1
        if self.left == 0:
            self._do()
            return (data if self._passes else b""), True
        return data, False


class _Case:
    """What a round needs: its chances, a folder, and a place for what is violated."""

    def __init__(self, chance: random.Random, result: Result, folder: Path) -> None:
        self.chance, self.result, self.folder = chance, result, folder

    def violate(self, law: str, how: str) -> None:
        self.result.violations.append(Violation(law, how))

    def say(self, text: str) -> None:
        self.result.trace.append(text)

    def run(self, *arguments: str, blocks: int | None = None) -> "subprocess.Popen[str]":
        """Start the program; its files may have at most so many blocks of 512 bytes, if given."""
        command = [*PROGRAM, *arguments]
        if blocks is not None:
            command = ["sh", "-c", 'ulimit -f "$0" && exec "$@"', str(blocks), *command]
        return subprocess.Popen(
            command,
            env=environment(HOME=str(self.folder), XDG_STATE_HOME=str(self.folder), RSMQ_TUI_CONFIG=os.devnull),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, process: "subprocess.Popen[str]", law: str = "only told errors") -> tuple[int, str]:
        """Wait for a process, and check what it printed; returns its exit status and what it printed."""
        try:
            out, err = process.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.violate("nobody stuck", f"{process.args!r}: {out}{err}")
        self.say(f"exit status {process.returncode}: {out.strip()} {err.strip()}")
        # A full disk is no error of the network, and has a file.
        if any(words in out + err for words in ("Traceback", "Usage:", f"[Errno {errno.ENOSPC}]")):
            self.violate(law, out + err)
        for line in err.splitlines():
            self.result.messages[re.sub(r"(redis://|/)\S+|\d[\d,.]*", "…", line)] += 1
        return process.returncode, out + err

    def undo(self, url: str, times: int = 1) -> None:
        """Undo the last changes, by the command, as long as there are any."""
        for _ in range(times):
            status, _ = self.ended(self.run("-r", url, "undo", "--yes"))
            if status:
                break

    def check(self, before: Found, client: Redis, taken: set[bytes], ns: str = "rsmq") -> None:
        """Check that all is there again, except what was taken."""
        after = found(client, ns)
        wanted = {place: message for place, message in before.items() if place[1] not in taken}
        if lost := wanted.keys() - after.keys():
            self.violate("undo brings back", f"{len(lost)} messages are missing, such as {min(lost)}")
        if other := after.keys() - wanted.keys():
            law = "taken stays taken" if any(id in taken for _, id in other) else "nothing doubled"
            self.violate(law, f"{len(other)} messages too many, such as {min(other)}")
        if different := [place for place in wanted.keys() & after.keys() if wanted[place] != after[place]]:
            place = min(different)
            self.violate("nothing lost", f"{len(different)} are different: {wanted[place]} -> {after[place]}")

    def consume(self, client: Redis) -> set[bytes]:
        """Take some messages, as consumers do."""
        taken = set()
        for queue in "ab":
            for id in client.zrange(f"rsmq:{queue}", 0, self.chance.randrange(4) - 1 or 0):
                client.zrem(f"rsmq:{queue}", id)
                client.hdel(f"rsmq:{queue}:Q", id, id + b":rc", id + b":fr")
                taken.add(id)
        return taken


def _kill_change(case: _Case) -> None:
    chance = case.chance
    verb = chance.choice(sorted(_VERBS))
    with _served() as (server, client), Proxy(server.port) as proxy:
        before = lay(client, chance)
        process = case.run("-r", proxy.url, *_VERBS[verb], "--all", "--yes")
        number = chance.randrange(1, 48)
        case.say(f"{verb} is killed at reply {number}")
        proxy.change(_At(number, process.kill, passes=chance.random() < 0.5))
        case.ended(process)
        proxy.forward()
        taken = case.consume(client) if chance.random() < 0.5 else set()
        if chance.random() < 0.3:
            undo = case.run("-r", proxy.url, "undo", "--yes")
            proxy.change(_At(chance.randrange(1, 40), undo.kill, passes=chance.random() < 0.5))
            case.ended(undo)
            proxy.forward()
        case.undo(proxy.url)
        case.check(before, client, taken)


def _full_disk(case: _Case) -> None:
    chance = case.chance
    verb = chance.choice(sorted(_VERBS))
    with _served() as (server, client):
        before = lay(client, chance)
        blocks = chance.choice((0, 1, 8, 60, 100, 200, 400))
        case.say(f"{verb} with files of {blocks} blocks of 512 bytes")
        status, message = case.ended(case.run("-r", server.url, *_VERBS[verb], "--all", "--yes", blocks=blocks))
        if status == 0 and found(client) == before:
            case.violate("told is done", f"nothing was changed, and it said: {message}")
        case.undo(server.url)
        case.check(before, client, set())


def _small_disk(case: _Case) -> None:
    """The disk has little room left, of which the change needs more; the undo finds it so, too, or has room again."""
    chance, folder = case.chance, case.folder / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, check=False, capture_output=True)
    if mounted.returncode:
        case.say("this user may not mount")
        return
    small, filler = _Case(chance, case.result, folder), folder / "filler"
    verb, left = chance.choice(sorted(_VERBS)), chance.choice((0, 4_096, 40_960, 81_920, 163_840, 327_680, 655_360))
    case.say(f"{verb} with {left} bytes left on the disk")
    try:
        with _served() as (server, client):
            before = lay(client, chance)
            if chance.random() < 0.5:
                # A journal that is there already.
                small.ended(small.run("-r", server.url, *_VERBS[verb], "--all", "--yes"))
                small.undo(server.url)
            filler.write_bytes(bytes(max(0, shutil.disk_usage(folder).free - left)))
            status, message = small.ended(small.run("-r", server.url, *_VERBS[verb], "--all", "--yes"))
            if status == 0 and found(client) == before:
                case.violate("told is done", f"nothing was changed, and it said: {message}")
            if chance.random() < 0.5:
                small.undo(server.url)
            filler.unlink()
            small.undo(server.url, _UNDOS_MAX)
            case.check(before, client, set())
    finally:
        subprocess.run(["umount", folder], check=True)


def _kill_recorder(case: _Case) -> None:
    chance, out = case.chance, case.folder / "history"
    with _served() as (server, client), Proxy(server.port) as proxy:
        lay(client, chance)
        for _ in range(chance.randrange(1, 4)):
            process = case.run("record", "-r", proxy.url, "--out", str(out), "--every", "0.1s", "--for", "20s")
            number = chance.randrange(1, 80)
            case.say(f"the recorder is killed at reply {number}")
            proxy.change(_At(number, process.kill, passes=True))
            case.ended(process)
            proxy.forward()
            _check_history(case, out)
        status, message = case.ended(
            case.run("record", "-r", proxy.url, "--out", str(out), "--every", "0.1s", "--for", "1s")
        )
        if status:
            case.violate("recovered", message)
        _check_history(case, out)
        if not rows_of(out):
            case.violate("nothing lost", "the history is empty")
        if rest := left_over(out):
            case.violate("nothing left behind", f"{rest}")


def _full_recorder(case: _Case) -> None:
    out = case.folder / "history"
    with _served() as (server, client):
        lay(client, case.chance)
        blocks = case.chance.choice((0, 1, 8, 20, 60))
        case.say(f"the recorder has files of {blocks} blocks of 512 bytes")
        case.ended(
            case.run("record", "-r", server.url, "--out", str(out), "--every", "0.1s", "--for", "2s", blocks=blocks)
        )
        if out.exists():
            _check_history(case, out)
        status, message = case.ended(
            case.run("record", "-r", server.url, "--out", str(out), "--every", "0.1s", "--for", "1s")
        )
        if status:
            case.violate("recovered", message)
        _check_history(case, out)


def _check_history(case: _Case, out: Path) -> None:
    """Check that every file can be read, and every poll is there once, with all queues."""
    try:
        rows = rows_of(out)
    except (OSError, ValueError) as error:
        case.violate("nothing lost", f"a file is broken: {error!r}")
        return
    polls: dict[tuple[Any, Any], list[Any]] = {}
    for row in rows:
        polls.setdefault((row["at_ms"], row["recorder"]), []).append(row["queue"])
    for poll, queues in polls.items():
        if queues not in (["a", "b", None], [None]):
            case.violate("nothing doubled", f"the poll {poll} has {queues}")


def _restart_server(case: _Case) -> None:
    """The server is ended within a change, and starts again with what it had saved at its end."""
    with _served() as (server, client), Proxy(server.port) as proxy:
        before = lay(client, case.chance)

        def restart() -> None:
            server.shut_down()
            server.start_again()

        asyncio.run(_change_and_undo(case, proxy, restart, lambda: None))
        with Redis.from_url(server.url) as again:
            case.check(before, again, set())


def _failover(case: _Case) -> None:
    """The master is killed within a change, and its replica becomes the master at the same address."""
    with ExitStack() as stack:
        master, replica = (stack.enter_context(real_server()) for _ in range(2))
        with master.client() as client:
            before = lay(client, case.chance)
        replica.call("REPLICAOF", "127.0.0.1", master.port)
        with replica.client() as copy:
            wait_until(lambda: found(copy) == before, what="the replica follows")
        proxy = stack.enter_context(Proxy(master.port))
        is_behind = case.chance.random() < 0.5

        def fail() -> None:
            master.kill()
            replica.call("REPLICAOF", "NO", "ONE")

        def follow() -> None:
            proxy.refuse()
            other = Proxy(replica.port)
            other.port = proxy.port
            stack.enter_context(other)

        if is_behind:
            # The replica hangs for a while: it has not got the last writes when it takes over.
            case.say("the replica is behind")
            replica.call("CLIENT", "PAUSE", 300, "WRITE")
        asyncio.run(_change_and_undo(case, proxy, fail, follow))
        with replica.client() as client:
            case.check(before, client, set())


async def _change_and_undo(case: _Case, proxy: Proxy, fail: Callable[[], object], after: Callable[[], object]) -> None:
    """Make a change, in which the server fails at a random reply; recover and undo all of it."""
    verb, number = case.chance.choice(sorted(_ACTIONS)), case.chance.randrange(1, 30)
    case.say(f"{verb} fails at reply {number}")
    service = ChangeService(RsmqBackend(proxy.url, "rsmq"), case.folder / "state")
    try:
        preview = await service.preview(_ACTIONS[verb])
        failing = _At(number, fail, passes=case.chance.random() < 0.5)
        proxy.change(failing)
        number_of_change: int | None = None
        with _output(case):
            report = await service.run(preview).to_end()
            number_of_change = report.change
            case.say(report.sentence)
            case.result.messages[re.sub(r"(redis://|/)\S+|\d[\d,.]*", "…", report.stopped or "done")] += 1
        if failing.left > 0:
            await asyncio.to_thread(fail)
        await asyncio.to_thread(after)
        proxy.forward()
        await _recovers_and_undoes(case, service, number_of_change)
    finally:
        await service.aclose()


async def _change_meanwhile(case: _Case, address: Address, ns: str, fail: Callable[[], object]) -> None:
    """Make a change, in which servers fail before or after a random batch; recover and undo all of it."""
    verb, left, is_before = (
        case.chance.choice(sorted(_ACTIONS)),
        case.chance.randrange(1, 9),
        case.chance.random() < 0.5,
    )
    case.say(f"{verb} fails {'before' if is_before else 'after'} batch {left}")
    service = ChangeService(RsmqBackend(address, ns), case.folder / "state")
    apply = RsmqEditor.apply

    async def failing(editor: RsmqEditor, batch: Batch, token: str) -> str:
        nonlocal left
        left -= 1
        is_now = left == 0
        if is_now and is_before:
            await asyncio.to_thread(fail)
        outcome = await apply(editor, batch, token)
        if is_now and not is_before:
            await asyncio.to_thread(fail)
        return outcome

    try:
        preview = await service.preview(_ACTIONS[verb])
        number_of_change: int | None = None
        with _output(case), patch.object(RsmqEditor, "apply", failing):
            report = await service.run(preview).to_end()
            number_of_change = report.change
            case.say(report.sentence)
            case.result.messages[re.sub(r"(redis://|/)\S+|\d[\d,.]*", "…", report.stopped or "done")] += 1
        if left > 0:
            await asyncio.to_thread(fail)
        await _recovers_and_undoes(case, service, number_of_change)
    finally:
        await service.aclose()


async def _recovers_and_undoes(case: _Case, service: ChangeService, number_of_change: int | None) -> None:
    for change in await service.recover():
        case.say(f"recovered: {change.done} done, {change.unsure} unsure, {change.state}")
    for unsettled in (False, True):
        with _output(case):
            undone = await service.run(await service.preview_undo(number_of_change, unsettled=unsettled)).to_end()
            case.say(undone.sentence)


@contextmanager
def _output(case: _Case) -> Iterator[None]:
    try:
        yield
    except TriageError as error:
        case.say(f"refused: {error}")


def _sentinel(case: _Case) -> None:
    """The master is killed within a change, and the sentinel makes its replica the master, at another address."""
    with watched("mymaster") as servers:
        with servers.master.client() as client:
            before = lay(client, case.chance)
        (replica,) = (server for server in servers.servers if server is not servers.master)
        with replica.client() as copy:
            wait_until(lambda: found(copy) == before, what="the replica follows")
        sentinels = Sentinels("mymaster", tuple(Node(HOST, sentinel.port) for sentinel in servers.sentinels))
        address = Address("redis://localhost/0", sentinels=sentinels)
        asyncio.run(_change_meanwhile(case, address, "rsmq", servers.fail_over))
        with servers.master.client() as client:
            case.check(before, client, set())


def _cluster(case: _Case) -> None:
    """The node that holds the queues is killed within a change, or their slot moves to another node."""
    ns = "{rsmq}"
    slot = slot_of(ns)
    assert slot is not None
    with cluster(replicas=3) as servers:
        before_node = servers.owner(slot)
        with before_node.client() as client:
            before = lay(client, case.chance, ns)
        replica = servers.replicas[servers.masters.index(before_node)]

        def fail() -> None:
            before_node.kill()
            wait_until(lambda: replica.call("ROLE")[0] == b"master" and servers.owner(slot) is replica, what="a master")

        def move() -> None:
            servers.move(slot, next(node for node in servers.masters if node is not before_node))

        happens = case.chance.choice((fail, move))
        if happens is fail:
            wait_until(lambda: _has_all(replica, before, ns), what="the replica follows")
        case.say(happens.__name__)
        port = next(node.port for node in servers.masters if node is not before_node)
        address = Address(url_of(HOST, port), cluster=(Node(HOST, port),))
        asyncio.run(_change_meanwhile(case, address, ns, happens))
        with servers.owner(slot).client() as client:
            case.check(before, client, set(), ns)


def _has_all(replica: RealServer, before: Found, ns: str) -> bool:
    with replica.client() as client:
        client.execute_command("READONLY")
        return found(client, ns) == before


def _hung_screen(case: _Case) -> None:
    with _served() as (server, client), Proxy(server.port) as proxy:
        lay(client, case.chance)
        asyncio.run(_hangs(case, proxy))


_SCREENS: dict[str, tuple[str, ...]] = {
    "overview": (),
    "queue": ("queue",),
    "message": ("queue", "message"),
    "life": ("queue", "W"),
    "clients": ("queue", "w"),
    "server": ("i",),
    "audit": ("F",),
    "search": ("f",),
    "events": ("L",),
}


async def _hangs(case: _Case, proxy: Proxy) -> None:
    async with dashboard(proxy.url, timeout_s=2.0, interval_s=0.1) as pilot:
        await until(pilot, lambda: not _AGE.search(text_of(pilot)))
        name = case.chance.choice(sorted(_SCREENS))
        for step in _SCREENS[name]:
            if step == "queue":
                await open_queue(pilot, "a")
            elif step == "message":
                await open_message(pilot)
            else:
                await press(pilot, step)
        for _ in range(2):
            how = case.chance.choice(("swallow", "refuse", "nonsense", "half"))
            case.say(f"{name}: {how}")
            match how:
                case "swallow":
                    proxy.swallow()
                case "refuse":
                    proxy.refuse()
                case "nonsense":
                    proxy.answer(b"garbage\r\n")
                case "half":
                    proxy.change(lambda data: (data[: len(data) // 2], True))
            await _comes(case, pilot, name, lambda: bool(_AGE.search(text_of(pilot))))
            if how == "refuse":
                proxy.listen()
            proxy.forward()
            await _comes(case, pilot, name, lambda: not _AGE.search(text_of(pilot)))


async def _comes(case: _Case, pilot: Dashboard, name: str, condition: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + SECONDS_MAX
    while not condition():
        if time.monotonic() > ends_s:
            case.violate("every screen tells its age", f"{name}:\n{text_of(pilot)}")
            return
        await pilot.pause(0.05)


def _two_dashboards(case: _Case) -> None:
    with _served() as (server, client):
        before = lay(client, case.chance)
        # Each app takes the standard output, and would give back that of the other one.
        with redirect_stdout(sys.stdout), redirect_stderr(sys.stderr):
            taken = asyncio.run(_two(case, server, client))
        case.undo(server.url, _UNDOS_MAX)
        case.check(before, client, taken)


async def _two(case: _Case, server: EmbeddedServer, client: Redis) -> set[bytes]:
    """Have two dashboards ask for changes and undos, and say yes to both at once; returns what was taken meanwhile."""
    taken: set[bytes] = set()
    both = asyncio.Barrier(2)
    # Of each of the two, one after the other; whether consumers work in between.
    names = [[case.chance.choice(("delete", "undo", "undo") if at else ("delete",)) for _ in "ab"] for at in range(3)]
    consumed = [case.chance.random() < 0.3 for _ in names]

    async def work(number: int) -> None:
        # As the command of ``case.undo`` finds it.
        async with _dashboard_on(server.url, case.folder / "rsmq-tui") as pilot:
            await both.wait()
            for at, wanted in enumerate(names):
                is_ready = await _previews(case, pilot, wanted[number])
                await both.wait()
                if number == 0 and consumed[at]:
                    taken.update(case.consume(client))
                await both.wait()
                if is_ready:
                    await _says_yes(case, pilot)
                await both.wait()
            # Both show what is there now.
            depth = f"{client.zcard('rsmq:a'):,}"
            await _comes(case, pilot, "overview", lambda: depth in text_of(pilot))

    # Each in a task of its own: Textual knows an app by the context.
    async with asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(work(number))
    return taken


async def _says_yes(case: _Case, pilot: Dashboard) -> None:
    changes = dashboard_app(pilot).dashboard.changes
    before = changes.status
    screen = pilot.app.screen
    if not screen.query("#yes"):
        case.say("the dialog has closed")
        return
    screen.query_one("#yes").focus()
    await press(pilot, "enter")
    await until(pilot, lambda: changes.status not in (None, before) and not changes.is_running)
    assert changes.status is not None
    case.say(changes.status.words)


async def _previews(case: _Case, pilot: Dashboard, name: str) -> bool:
    """Ask for a change or an undo; returns whether there is a preview to say yes to."""
    app = dashboard_app(pilot)
    before = app.dashboard.changes.status
    if name == "undo":
        await press(pilot, "u")
    else:
        ask_change(app, name, "a", Everything())
    case.say(name)
    ends_s = time.monotonic() + _PREVIEW_S
    while time.monotonic() < ends_s:
        screen = app.screen
        if isinstance(screen, ConfirmScreen) and (yes := screen.query("#yes")) and not yes.first().disabled:
            return True
        if (message := app.dashboard.changes.status) is not None and message is not before and not message.is_running:
            case.say(message.words)
            break
        await pilot.pause(0.05)
    # There is nothing to undo, or nothing that would change.
    case.say("no preview")
    if isinstance(app.screen, ConfirmScreen):
        await press(pilot, "escape")
    return False


@asynccontextmanager
async def _dashboard_on(url: str, folder: Path) -> AsyncIterator[Dashboard]:
    """Open a dashboard whose changes are in that folder."""
    app = RsmqApp(
        [
            WatchedServer(
                RsmqPoller(RsmqReader(url, "rsmq", timeout_s=5.0), interval_s=0.1),
                make_triage=partial(ChangeService, RsmqBackend(url, "rsmq"), folder),
            )
        ],
        encoding="utf-8",
    )
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, "1,500")
        yield pilot


@contextmanager
def _served() -> Iterator[tuple[EmbeddedServer, Redis]]:
    with EmbeddedServer() as server, Redis.from_url(server.url) as client:
        yield server, client


_ROUNDS: dict[str, tuple[Callable[[_Case], None], str]] = {
    "kill-process": (_kill_change, "a command is killed within a change, and perhaps within its undo"),
    "full-disk-process": (_full_disk, "a command makes a change on a disk that is full, or becomes so"),
    "small-disk-process": (
        _small_disk,
        "a command makes a change on a file system with little room, if it may mount one",
    ),
    "kill-recorder": (_kill_recorder, "recorders are killed, and another one continues"),
    "full-disk-recorder": (_full_recorder, "a recorder writes to a disk that is full, or becomes so"),
    "restart-process": (_restart_server, "a server process ends within a change, and starts again with its data"),
    "failover-process": (_failover, "a replica takes over from a master that is killed within a change"),
    "sentinel-process": (_sentinel, "a sentinel replaces a master that is killed within a change"),
    "cluster-process": (_cluster, "a node of a cluster is killed within a change, or its slot moves"),
    "hung-screen": (_hung_screen, "a server hangs or goes away while a screen shows it"),
    "two-dashboards": (_two_dashboards, "two dashboards on one journal make or undo the same change at once"),
}
WORDS = {name: words for name, (_, words) in _ROUNDS.items()}


def play(seed: int, kinds: Sequence[str]) -> Result:
    """Play the round of a seed, of one of these kinds."""
    chance, result = random.Random(seed), Result(seed)
    name = chance.choice(list(kinds))
    result.faults[name] += 1
    result.changes = 1
    with tempfile.TemporaryDirectory(prefix="rsmq-tui-chaos-") as folder:
        try:
            _ROUNDS[name][0](_Case(chance, result, Path(folder)))
        except Exception as error:  # whatever a round ends with, the others are played
            result.violations.append(Violation("nobody stuck", f"{name}: {error!r}"))
    return result

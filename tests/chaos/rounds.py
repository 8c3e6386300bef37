"""A cheap round: from its seed follow a world, operators, and faults; it ends with what was violated."""

import os
import random
import re
import secrets
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import redis.utils

from rsmq_tui.monitor import parse_filter
from rsmq_tui.protocol.kinds import LIST
from rsmq_tui.protocol.lists.edits import EDIT_LISTS
from rsmq_tui.protocol.lists.naming import ListNames, item_id
from rsmq_tui.protocol.rsmq.edits import EDIT_FIELDS, EDIT_LOOSE, EDIT_MESSAGES
from rsmq_tui.triage import actions, execute
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal import journal
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.lists import select as list_select
from rsmq_tui.triage.lists.backend import ListBackend
from rsmq_tui.triage.rsmq import plan
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Everything, Marked, Matching, Named, Preview, Scope, Shown
from rsmq_tui.triage.service import ChangeService
from tests.chaos import faults, laws
from tests.chaos.laws import Violation
from tests.chaos.model import LISTS, A, Ask, B, State, World
from tests.chaos.operators import KilledError, Operator, Request, StuckError, Wire, in_this_process
from tests.clocked_server import START_US, STEP_US, ClockedServer

# Commands that change nothing in queues; what others do is looked for after all others.
_READS = frozenset(
    b"TIME INFO GET EXISTS ZRANGE ZCARD ZSCORE ZMSCORE HMGET HGET HGETALL HSCAN HLEN HSTRLEN LLEN LRANGE SMEMBERS "
    b"SISMEMBER TYPE CLIENT HELLO SELECT PING SCAN ZSCAN ZCOUNT COMMAND MEMORY".split()
)
_EDITS = (EDIT_MESSAGES, EDIT_FIELDS, EDIT_LOOSE, *EDIT_LISTS.values())
_OTHER = {"a": "b", "b": "a", A: B, B: A}
_POINTS_MAX = 4_000
_MESSAGE_MAX = 400
_DAY_MS = 86_400_000

# Each change sends bodies of its own, of which these are the beginnings.
_BODIES = (b"ours 1 of ", b"ours 2 of ", b"ours 3 of ")

QUEUE_ACTIONS: dict[str, Callable[[str], actions.Action]] = {
    "delete": lambda queue: actions.Delete(queue=queue),
    "hide": lambda queue: actions.Hide(queue=queue, seconds=1000),
    "release": lambda queue: actions.Release(queue=queue),
    "move": lambda queue: actions.Move(queue=queue, target=_OTHER[queue]),
    "move to a new queue": lambda queue: actions.Move(queue=queue, target="new", create=True),
    "move to a list": lambda queue: actions.Move(queue=queue, target=f"list:{A}"),
    "copy": lambda queue: actions.Copy(queue=queue, target=_OTHER[queue]),
    "redrive": lambda queue: actions.Redrive(queue=queue, target=_OTHER[queue]),
    "send": lambda queue: actions.Send(queue=queue, bodies=_BODIES),
    "create": lambda queue: actions.CreateQueue(queue="new"),
    "set": lambda queue: actions.SetAttributes(queue=queue, vt=5, delay=1),
    "delete the queue": lambda queue: actions.DeleteQueue(queue=queue),
}
LIST_ACTIONS: dict[str, Callable[[str], actions.Action]] = {
    "delete": lambda queue: actions.Delete(queue=queue),
    "pop": lambda queue: actions.Pop(queue=queue, count=3),
    "trim": lambda queue: actions.Trim(queue=queue, keep=2),
    "purge": lambda queue: actions.PurgeList(queue=queue, processing=True),
    "move": lambda queue: actions.Move(queue=queue, target=_OTHER[queue]),
    "move to RSMQ": lambda queue: actions.Move(queue=queue, target="rsmq:a"),
    "copy": lambda queue: actions.Copy(queue=queue, target=_OTHER[queue]),
    "send": lambda queue: actions.Send(queue=queue, bodies=_BODIES),
    "send first": lambda queue: actions.Push(queue=queue, bodies=_BODIES, first=True),
    "requeue": lambda queue: actions.Requeue(queue=A),
    "requeue to the back": lambda queue: actions.Requeue(queue=A, to_back=True),
    "ack": lambda queue: actions.Ack(queue=A),
    "extend": lambda queue: actions.Hide(queue=A, seconds=1000),
}
_SCOPED = ("delete", "hide", "release", "move", "copy", "redrive", "move to a list", "move to a new queue")


@dataclass
class Result:
    """What a round came to: its faults, its violations, what operators were told, and its trace."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    messages: Counter[str] = field(default_factory=Counter)
    points: int = 0
    changes: int = 0
    trace: list[str] = field(default_factory=list)


# What operators do, and how often.
_DOINGS = {"change": 10, "undo": 5, "again": 3, "undo of one": 2, "part": 5, "recover": 1}


class Round:
    """A round on a server: ``play`` returns its result. ``kinds`` are the faults that may come, all by default."""

    def __init__(self, server: ClockedServer, seed: int, kinds: Sequence[str] = ()) -> None:
        self.server = server
        self.chance = random.Random(seed)
        self.result = Result(seed)
        self.local_ms = 0
        self.full_for = 0
        self.late: list[tuple[Wire, Request, Ask | None]] = []
        self.asks: list[Ask] = []
        self._kinds = tuple(kinds) or (*faults.COMMAND, *faults.ANY)
        self._plan: list[tuple[int, str, bool]] = []
        self._is_calm = False
        self._folder = Path(_fast_folder(), f"rsmq-tui-chaos-{os.getpid()}")
        self._operators: list[Operator] = []
        # The changes in the journal, by their numbers, and the preview with which each began.
        self._numbers: dict[int, Ask] = {}
        self._previewed: dict[int, Ask] = {}

    def play(self) -> Result:
        """Play it."""
        chance = self.chance
        self.server.reset()
        # An interrupted process of the same number may have left it.
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)
        with in_this_process(), self._small_and_certain():
            try:
                self.world = World(self.server, chance)
                self.busy = chance.choice((0.02, 0.1, 0.25))
                number = chance.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 6))
                times = sorted(chance.randrange(3, 65) for _ in range(number))
                # Most faults wait for a command that changes something.
                self._plan = [(at, chance.choice(self._kinds), chance.random() < 0.6) for at in times]
                if chance.random() < 0.5:
                    self.server.line.ask(*(("SCRIPT", "LOAD", script.text) for script in _EDITS))
                count = 2 if chance.random() < 0.35 else 1
                operators = [self._operator(f"operator {number + 1}") for number in range(count)]
                for operator in operators:
                    operator.begin(self._works(operator, chance.randrange(1, 4)))
                self._run(operators)
                self._settle()
            except StuckError:
                self.violate("nobody stuck", "an operator waits for ever")
            finally:
                faults.set_file_limit(None)
                for operator in self._operators:
                    operator.put_away()
                shutil.rmtree(self._folder, ignore_errors=True)
        return self.result

    def violate(self, law: str, how: str) -> None:
        """Note that a law was broken."""
        self.result.violations.append(Violation(law, how))
        self._trace(f"VIOLATION {law}: {how}")

    # Points

    def point(self, operator: Operator, what: str, *, is_edit: bool = False) -> str | None:
        """Let others do what they do before this point; returns the fault that comes, if one does."""
        result = self.result
        result.points += 1
        if result.points > _POINTS_MAX:
            raise StuckError
        self._trace(f"{operator.name}: {what}")
        if self._is_calm:
            return None
        self.server.move(STEP_US)
        while self.chance.random() < self.busy:
            self.acts()
        if self.late and self.chance.random() < 0.15:
            self.deliver_late()
        if "failover" in self._kinds and self.chance.random() < 0.05:
            self.world.save()
        if len([each for each in self._operators if not each.is_over]) > 1 and self.chance.random() < 0.3:
            operator.pause()
        if self._plan and result.points >= self._plan[0][0]:
            _, name, is_aimed = self._plan[0]
            if is_edit or (not is_aimed and (what != "disk" or name in faults.ANY)):
                self._plan.pop(0)
                if name == "failover" and self.world.saved is None:
                    return None
                result.faults[name] += 1
                self._trace(f"  FAULT {name}")
                return name
        return None

    def command(self, wire: Wire, request: Request) -> None:
        """Serve one command of an operator."""
        fault = self.point(wire.operator, _shown(request), is_edit=_is_edit(request))
        if wire.is_hung:
            self.delay(wire, request)
            return
        if fault in faults.COMMAND:
            faults.COMMAND[fault](self, wire, request)
            return
        if fault is None:
            wire.answer(self.executed(wire, request))
            return
        # Before the command, or between the command and its reply.
        reply = self.executed(wire, request) if self.chance.random() < 0.5 else b""
        faults.ANY[fault](self, wire.operator)
        if not wire.operator.is_dead and not wire.is_closing():
            wire.answer(reply or self.executed(wire, request))

    def disk(self, operator: Operator) -> bool:
        """Reach work in a thread; returns whether the operator is still there."""
        fault = self.point(operator, "disk")
        if self.full_for:
            self.full_for -= 1
            if not self.full_for:
                faults.set_file_limit(None)
        if fault in faults.ANY:
            faults.ANY[fault](self, operator)
        return not operator.is_dead

    def executed(self, wire: Wire, request: Request, ask: Ask | None = None) -> bytes:
        """Have a command executed, and check what it changed; returns its reply."""
        ask = ask or wire.operator.ask
        reply = wire.line.raw(request)
        self._trace(f"  -> {reply[:60]!r}")
        if request[0].upper() not in _READS and not _is_about_marker(request):
            before = self.world.state
            self.world.changed()
            if self.world.state != before:
                broken = laws.broken_by(ask, before, self.world.state, self.world.at_ms)
                if broken is not None:
                    self.violate(*broken)
        return reply

    def delay(self, wire: Wire, request: Request) -> None:
        """Have a command, and those that follow on its connection, executed later."""
        self.late += [(wire, each, wire.operator.ask) for each in (request, *wire.requests)]
        wire.requests.clear()

    def deliver_late(self) -> None:
        """Have the command executed that waits longest."""
        wire, request, ask = self.late.pop(0)
        self._trace(f"  LATE {_shown(request)}")
        self.executed(wire, request, ask)

    def cut_all(self, error: Callable[[], Exception]) -> None:
        """End the connections of all operators."""
        for operator in self._operators:
            for wire in operator.wires:
                wire.requests.clear()
                wire.cut(error())

    def lose_accounts(self) -> None:
        """The server has lost data: what undos had put back or removed may be lost too, and may be done again."""
        for ask in self.asks:
            ask.back.clear()
            ask.removed.clear()
            ask.is_lost = True

    def acts(self) -> None:
        """Let one of the others do something."""
        self._trace(f"  others: {self.world.act()}")

    # Operators

    def _operator(self, name: str) -> Operator:
        operator = Operator(
            name, self.server, self.command, self.disk, lambda seconds: self.server.move(int(seconds * 1_000_000))
        )
        self._operators.append(operator)
        return operator

    def _run(self, operators: Sequence[Operator]) -> None:
        while working := [operator for operator in operators if not operator.is_over]:
            self.chance.choice(working).run()
        for operator in operators:
            for failure in operator.failures:
                self.violate("only told errors", failure)
            if operator.is_dead or operator.task is None or operator.task.cancelled():
                continue
            if (error := operator.task.exception()) is not None:
                self.violate("only told errors", f"{operator.name}: {error!r}")

    async def _works(self, operator: Operator, times: int) -> None:
        services = self._services()
        try:
            for _ in range(times):
                await self._does(operator, self.chance.choice(services))
        finally:
            for service in services:
                # One that was killed has its connections closed at the end of the round, but not its journal.
                with suppress(KilledError):
                    await service.aclose()

    def _services(self) -> list[ChangeService]:
        url, names = self.server.url, ListNames()
        queues = ChangeService(RsmqBackend(url, "rsmq"), self._folder)
        lists = ChangeService(ListBackend(url, names, "rsmq"), self._folder)
        return [queues, lists] if self.chance.random() < 0.6 else [lists, queues]

    async def _does(self, operator: Operator, service: ChangeService) -> None:
        (what,) = self.chance.choices(tuple(_DOINGS), tuple(_DOINGS.values()))
        try:
            match what:
                case "recover":
                    await service.recover()
                case "undo":
                    await self._undoes(operator, service, None)
                case "again":
                    undos = [ask for ask in self._numbers.values() if ask.undoes is not None]
                    await self._undoes(operator, service, self.chance.choice(undos) if undos else None)
                case "undo of one":
                    known = list(self._numbers.values())
                    await self._undoes(operator, service, self.chance.choice(known) if known else None)
                case "part":
                    known = [ask for ask in self._numbers.values() if ask.effects or ask.came or ask.gone]
                    if known:
                        undone = self.chance.choice(known)
                        await self._undoes(operator, service, undone, self._part(undone))
                case _:
                    await self._changes(operator, service)
        except TriageError as error:
            self._tell(operator, "refused", str(error))
        finally:
            operator.ask = None
            self.world.looking = [ask for ask in self.world.looking if ask.operator != operator.name]

    async def _changes(self, operator: Operator, service: ChangeService) -> None:
        is_list = service.ns == LIST.ns
        name = self.chance.choice(sorted(LIST_ACTIONS if is_list else QUEUE_ACTIONS))
        queue = self.chance.choice((A, B) if is_list else ("a", "b"))
        action = (LIST_ACTIONS if is_list else QUEUE_ACTIONS)[name](queue)
        if isinstance(action, actions.Send):
            action = replace(action, bodies=tuple(body + b"%d" % len(self.asks) for body in action.bodies))
        scope, how = self._scope(action.queue, is_list) if name in _SCOPED else (None, "every")
        ask = Ask(operator.name, action, how)
        self.asks.append(ask)
        ask.look(self.world.state, self.world.at_ms)
        if isinstance(scope, Marked):
            ask.seen = {
                (queue, shown.id.encode()): {(float(shown.score), b"%d" % shown.rc if shown.rc else None)}
                for shown in scope.messages
            }
        else:
            self.world.looking.append(ask)
        preview = await service.preview(action, scope)
        ask.is_previewed = True
        await self._makes(operator, service, preview, ask)

    async def _undoes(
        self, operator: Operator, service: ChangeService, undone: Ask | None, part: Mapping[bytes, str] | None = None
    ) -> None:
        unsettled = self.chance.random() < 0.1
        named = Named(tuple(part.values())) if part else None
        preview = await service.preview_undo(undone.number if undone else None, unsettled=unsettled, scope=named)
        assert isinstance(preview.action, actions.Undo)
        undone = self._numbers[preview.action.change]
        ask = Ask(operator.name, preview.action, "every", undone, unsettled, part=frozenset(part) if part else None)
        self.asks.append(ask)
        await self._makes(operator, service, preview, ask)

    def _part(self, undone: Ask) -> dict[bytes, str] | None:
        """Return some of the ids and items that a change has changed, with the ids that name them; None for none."""
        ids = {place[1]: place[1].decode() for what, place in undone.effects if what == "message"}
        items = {item: item_id("queue", 0, item) for _, item in undone.came + undone.gone}
        if ids and items:
            # A message of a queue was an item of a list: each has a name of its own.
            return None
        return {each: name for each, name in sorted((ids | items).items()) if self.chance.random() < 0.4} or None

    async def _makes(self, operator: Operator, service: ChangeService, preview: Preview, ask: Ask) -> None:
        ask.previewed = preview.count
        self._previewed[id(preview)] = ask
        operator.ask = ask
        run = service.run(preview)
        operator.stop = run.stop
        self._trace(f"{operator.name} BEGINS {ask.title}, {preview.count}")
        report = await run.to_end()
        operator.stop = lambda: None
        ask.is_reported = True
        self.result.changes += 1
        self._trace(f"{operator.name} REPORT {report.sentence}")
        self._tell(operator, "stopped" if report.stopped else "done", report.sentence)
        self._check_report(ask, report)

    def _scope(self, queue: str, is_list: bool) -> tuple[Scope | None, str]:
        state = self.world.state
        if is_list:
            # What is named there is an item by its bytes.
            items = state.lists[queue][::-1]
            places = [at for at in range(len(items)) if self.chance.random() < 0.5]
            named = tuple(item_id("queue", at, items[at]) for at in places)
            return (Named(named), "named") if named and self.chance.random() < 0.5 else (None, "every")
        ids = sorted(id for where, id in state.messages if where == queue and self.chance.random() < 0.6)
        how = self.chance.choice(("every", "named", "marked", "ready", "received"))
        match how:
            case "named" if ids:
                return Named(tuple(id.decode() for id in ids)), "named"
            case "marked" if ids:
                messages = [(id.decode(), state.messages[queue, id]) for id in ids]
                shown = [Shown(id, str(int(found.score)), int(found.rc or 0)) for id, found in messages]
                return Marked(tuple(shown)), "named"
            case "ready":
                return Matching(parse_filter("state:ready")), "ready"
            case "received":
                return Matching(parse_filter("rc>=1")), "received"
        return Everything(), "every"

    def _tell(self, operator: Operator, how: str, text: str) -> None:
        if not text or not text.isprintable() or len(text) > _MESSAGE_MAX or "Traceback" in text:
            self.violate("only told errors", f"{operator.name} was told {text!r}")
        self._trace(f"{operator.name} TOLD {text}")
        self.result.messages[_kind_of_text(how, text)] += 1

    def _check_report(self, ask: Ask, report: ChangeReport) -> None:
        tally = report.tally
        if report.stopped is not None or self._is_lossy or ask.unsettled or ask.undoes is not None:
            return
        if tally.handled != ask.previewed:
            self.violate("told is done", f"{ask.title}: {report.sentence}, of {ask.previewed} previewed")
        if _is_counted(ask) and tally.done != ask.units:
            self.violate("told is done", f"{ask.title}: {report.sentence}, but {ask.units} in the server")

    # The end

    @property
    def _is_lossy(self) -> bool:
        return bool(faults.LOSSY & self.result.faults.keys())

    def _settle(self) -> None:
        """End all faults, recover as the next start does, and check what is left; then undo all of it."""
        faults.set_file_limit(None)
        if self.chance.random() < 0.5:
            self._deliver_all()
        self._is_calm = True
        self._trace("SETTLE")
        self._plays(self._recovers)
        self._deliver_all()
        if not self._is_lossy:
            self._check_journal()
        self._plays(self._undoes_all)
        if not self._is_lossy:
            self._check_taken()
            if not {"late", "hang", "slow", "kill-late", "full-disk"} & self.result.faults.keys():
                self.local_ms += 2 * _DAY_MS
                self._plays(self._recovers)
                self._check_markers()

    def _deliver_all(self) -> None:
        while self.late:
            self.deliver_late()

    def _plays(self, work: Callable[[Operator], Coroutine[Any, Any, None]]) -> None:
        operator = self._operator("the next start")
        operator.begin(work(operator))
        self._run([operator])

    async def _recovers(self, operator: Operator) -> None:
        for service in self._services():
            try:
                await service.recover()
            except TriageError as error:
                self.violate("recovered", str(error))
            finally:
                await service.aclose()

    def _check_journal(self) -> None:
        path = self._folder / "journal.sqlite"
        if not path.exists():
            return
        with closing(sqlite3.connect(path)) as db:
            rows = db.execute("SELECT change, state, done, unsure FROM changes").fetchall()
            (unknown,) = db.execute("SELECT count(*) FROM batches WHERE outcome IS NULL").fetchone()
        if unknown:
            self.violate("recovered", f"{unknown} batches without an outcome")
        for change, state, done, unsure in rows:
            ask = self._numbers.get(change)
            if state in ("running", "damaged"):
                self.violate("recovered", f"change {change} is {state}")
            if ask is None or not _is_counted(ask) or ask.unsettled:
                continue
            if not done - unsure <= ask.units <= done:
                self.violate(
                    "told is done", f"{ask.title}: {done} in the journal, {unsure} unsure, {ask.units} in the server"
                )

    async def _undoes_all(self, operator: Operator) -> None:
        queues, lists = sorted(self._services(), key=lambda service: service.ns == LIST.ns)
        path = self._folder / "journal.sqlite"
        unsure: set[int] = set()
        if path.exists():
            with closing(sqlite3.connect(path)) as db:
                unsure = {change for (change,) in db.execute("SELECT change FROM changes WHERE unsure > 0")}
        for number, undone in sorted(self._numbers.items(), reverse=True):
            if undone.is_undo:
                continue
            service = lists if undone.action.queue in (A, B) else queues
            before = self.world.state
            part = self._part(undone) if self.chance.random() < 0.5 else None
            is_made = False
            for scope in (part, None) if part else (None,):
                named = Named(tuple(scope.values())) if scope else None
                try:
                    preview = await service.preview_undo(number, scope=named)
                except TriageError as error:
                    self._tell(operator, "refused", str(error))
                    continue
                assert isinstance(preview.action, actions.Undo)
                of_this = self._numbers[preview.action.change]
                ask = Ask(operator.name, preview.action, "every", of_this, part=frozenset(scope) if scope else None)
                await self._makes(operator, service, preview, ask)
                is_made = True
            if not is_made:
                continue
            operator.ask = None
            if not self._is_lossy and number not in unsure:
                broken = self._kept_back(undone, before)
                if broken is not None:
                    self.violate(*broken)
        for service in (queues, lists):
            await service.aclose()

    def _kept_back(self, undone: Ask, before: State) -> Violation | None:
        queues = {place[0] for what, place in undone.effects if what == "message"}
        if any((queue, b"vt") not in before.fields for queue in queues):
            return None
        others = [ask for ask in self.asks if ask.original is not undone.original]
        taken = set().union(self.world.taken, *(ask.taken for ask in others))
        return laws.not_brought_back(undone, before, self.world.state, taken)

    def _check_taken(self) -> None:
        again = self.world.taken & self.world.state.messages.keys()
        # A copy has the id of its message, and may be moved to where that was.
        put = {thing for ask in self.asks if ask.undoes is None for thing, (_, left) in ask.effects.items() if left}
        again = {place for place in again if ("message", place) not in put}
        if again and not any(ask.unsettled for ask in self.asks):
            self.violate("taken stays taken", f"{again} came back")

    def _check_markers(self) -> None:
        (keys,) = self.server.line.ask(("KEYS", "*:rsmq-tui:*"))
        for key in keys:
            ((left_s),) = self.server.line.ask(("TTL", key))
            if left_s < 0:
                self.violate("nothing left behind", repr(key))
        known = {b"rsmq:QUEUES", *(key.encode() for key in (*LISTS, "queue:a:leases"))}
        known |= {f"rsmq:{queue}{end}".encode() for queue in ("a", "b", "new") for end in ("", ":Q")}
        (everything,) = self.server.line.ask(("KEYS", "*"))
        if others := set(everything) - known - set(keys):
            self.violate("nothing left behind", repr(others))

    # What makes it small, and the same each time

    @contextmanager
    def _small_and_certain(self) -> Iterator[None]:
        begin = Journal.begin

        def began(journal_: Journal, preview: Preview, *given: Any) -> int:
            number = begin(journal_, preview, *given)
            ask = self._previewed[id(preview)]
            ask.number = number
            self._numbers[number] = ask
            return number

        patched: list[tuple[Any, str, Any]] = [
            (Journal, "begin", began),
            (journal, "now_ms", lambda: START_US // 1000 + self.result.points + self.local_ms),
            (os, "urandom", self.chance.randbytes),
            # redis-py reads and parses its package's metadata for each connection that it makes.
            (redis.utils, "get_lib_version", _lib_version),
            (secrets, "token_hex", lambda size: self.chance.randbytes(size).hex()),
            # Few messages, and yet several groups of several batches.
            *((plan, name, 2) for name in ("CHUNK_MESSAGES", "MOVE_MESSAGES", "PUT_MESSAGES")),
            (list_select, "ITEMS_MAX", 3),
            (execute, "GROUP_BATCHES", 2),
        ]
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in patched]
        for owner, name, value in patched:
            setattr(owner, name, value)
        try:
            yield
        finally:
            for owner, name, value in before:
                setattr(owner, name, value)

    def _trace(self, text: str) -> None:
        self.result.trace.append(text)


_lib_version = cache(redis.utils.get_lib_version)


def _is_counted(ask: Ask) -> bool:
    """Return whether the units of a change can be counted in the server."""
    counted = (actions.Delete, actions.Pop, actions.Trim, actions.Ack, actions.Move, actions.Redrive, actions.Send,
               actions.Requeue)  # fmt: skip
    return ask.undoes is None and isinstance(ask.action, counted)


def _is_edit(request: Request) -> bool:
    return request[0].upper() in (b"EVAL", b"EVALSHA") and any(b":rsmq-tui:" in key for key in request[3:8])


def _is_about_marker(request: Request) -> bool:
    return request[0].upper() in (b"SET", b"DEL") and all(b":rsmq-tui:" in key for key in request[1:2])


def _shown(request: Request) -> str:
    words = [word[:40].decode("utf-8", "replace") for word in request[:1] + request[2:8]]
    return " ".join(words).replace("\n", " ")


def _kind_of_text(how: str, text: str) -> str:
    text = re.sub(r"(redis://|/)\S+", "…", text)
    return f"{how}: {re.sub(r'[0-9][0-9,.]*', 'n', text)}"


def _fast_folder() -> str:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


def play(server: ClockedServer, seed: int, kinds: Sequence[str] = ()) -> Result:
    """Play the round of a seed."""
    return Round(server, seed, kinds).play()

"""The command that a dialog offers to copy: the command line makes the same change of it."""

import shlex
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.cli import changes
from rsmq_tui.cli.commands import messages
from rsmq_tui.cli.main import main
from rsmq_tui.cli.queue_names import queue_of
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.events.known import FILE_NAME, KnownStore
from rsmq_tui.files import state_folder
from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.monitor.filters.language import Filter, parse_filter
from rsmq_tui.protocol.kinds import LIST
from rsmq_tui.triage import actions
from rsmq_tui.triage.actions import Action
from rsmq_tui.triage.scope import Everything, Marked, Matching, Named, Preview, Scope, Shown
from rsmq_tui.tui.changes.command_line import NoCommandError, command_of, export_command, known_command

POISON = Matching(parse_filter("rc>=5 body:'a b'"))
MADE: list[tuple[Action, Scope | None]] = [
    (actions.Delete(queue="orders"), POISON),
    (actions.Delete(queue="orders"), Matching(parse_filter("rc>=5"), 7)),
    (actions.Delete(queue="-orders"), Named(("a", "b"))),
    (actions.Delete(queue="o'r ders"), Everything()),
    (actions.Hide(queue="orders", seconds=90), Named(("a",), even_if_received=True)),
    (actions.Release(queue="orders"), Matching(parse_filter(""), 3)),
    (actions.Move(queue="orders", target="other", create=True), POISON),
    (actions.Copy(queue="orders", target="list:mail"), POISON),
    (actions.Redrive(queue="dead", origin="meta.queue"), None),
    (actions.Redrive(queue="dead", target="orders"), Everything()),
    (actions.Send(queue="orders", bodies=('{"a": "ü $x `y`"}'.encode(),), delay_s=60), None),
    (actions.Send(queue="orders", bodies=(b"--yes",)), None),
    (actions.CreateQueue(queue="new", vt=5, delay=1, maxsize=-1), None),
    (actions.SetAttributes(queue="orders", vt=31), None),
    (actions.Purge(queue="orders"), None),
    (actions.DeleteQueue(queue="orders"), None),
]
OF_LISTS: list[tuple[Action, Scope | None]] = [
    (actions.Push(queue="mail", bodies=(b"x",), first=True), None),
    (actions.Pop(queue="mail", count=3), None),
    (actions.Trim(queue="mail", keep=10, keep_oldest=True), None),
    (actions.PurgeList(queue="mail", processing=True), None),
    (actions.Requeue(queue="mail", to_back=True), Named(("a",))),
    (actions.Move(queue="mail", target="rsmq:orders"), POISON),
    (actions.Ack(queue="mail"), Everything()),
]


def preview_of(action: Action, ns: str = "rsmq", profile: str = "", scope: Scope | None = None) -> Preview:
    return Preview(action, "what", "redis://localhost:1/0", ns, profile, 0, 1, scope=scope)


@pytest.mark.parametrize(
    ("action", "scope", "ns"), [*((*made, "rsmq") for made in MADE), *((*made, LIST.ns) for made in OF_LISTS)]
)
def test_the_command_line_understands_it(
    action: Action, scope: Scope | None, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[Action, Any]] = []

    def take(options: object, given: Action, place: Any, wanted: Scope | None = None) -> int:
        taken.append((given, wanted))
        assert (place.ns, options.yes) == (ns, False)  # type: ignore[attr-defined]
        return 0

    monkeypatch.setattr(changes, "make_change", take)
    command = command_of(preview_of(action, ns, scope=scope))
    assert main(shlex.split(command)[1:]) == 0
    ((given, wanted),) = taken
    is_first = isinstance(action, actions.Push)
    assert type(given) is type(action) or is_first
    assert given == action
    if action.is_scoped:
        assert wanted == (scope or Everything())


def test_a_marked_message_is_named_by_its_id() -> None:
    marked = Marked((Shown("a", "1", 0), Shown("b", "2", 1)))
    command = command_of(preview_of(actions.Delete(queue="orders"), profile="prod eu", scope=marked))
    assert command == "rsmq-tui messages delete orders --id a b --profile 'prod eu' --ns rsmq"


def test_undo_and_fix_have_a_command() -> None:
    undo = actions.Undo(queue="orders", change=12, summary="", unsettled=True)
    assert command_of(preview_of(undo, "jobs")) == "rsmq-tui undo 12 --unsettled -r redis://localhost:1/0 --ns jobs"
    # Without its kind, a finding that asks first would be left out.
    found = Finding(FindingKind.SECONDS, "orders"), Finding(FindingKind.GHOST, "orders", 3)
    command = command_of(preview_of(actions.Fix(queue="orders", findings=found)))
    assert command.startswith("rsmq-tui audit --fix --queue orders --kind ghost --kind score-seconds -r ")


@pytest.mark.parametrize(
    ("action", "scope", "why"),
    [
        (actions.Delete(queue="a\x1b[2J"), Everything(), "cannot be typed"),
        (actions.Delete(queue="orders"), Named(tuple(map(str, range(51)))), "more than 50"),
        (actions.Delete(queue="orders"), Named(("a", "--yes")), "as an option"),
        (actions.Delete(queue="orders*"), Everything(), "as a pattern"),
        (actions.Delete(queue="jobs[1]"), Named(("a",)), "as a pattern"),
        (actions.Send(queue="orders", bodies=(b"x" * 3_000,)), None, "too long for a command"),
        (actions.Send(queue="orders", bodies=(b"\xff",)), None, "cannot be typed"),
        (actions.Import(queue="orders", path=Path("/a\nb")), None, "cannot be typed"),
    ],
)
def test_what_no_command_can_do_is_said(action: Action, scope: Scope | None, why: str) -> None:
    with pytest.raises(NoCommandError, match=why):
        command_of(preview_of(action, scope=scope))


SERVER = "redis://localhost:1/0"


def marked(*ids: str) -> Marked:
    return Marked(tuple(Shown(id, "1", 0) for id in ids))


@pytest.mark.parametrize(
    ("queue", "ns", "scope", "wanted"),
    [
        ("orders", "jobs", None, ""),
        ("-orders", "rsmq", Everything(), ""),
        ("o'r ders", "rsmq", POISON, POISON.filter.text),
        ("orders", "rsmq", marked("hoa1"), "id=hoa1"),
        ("mail", LIST.ns, marked("q:0:ab", "p:1:cd"), "id~^(q:0:ab|p:1:cd)$"),
    ],
)
def test_an_export_has_a_command(
    queue: str, ns: str, scope: Scope | None, wanted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken: list[tuple[Any, Filter]] = []

    async def take(options: object, given: Filter) -> int:
        taken.append((options, given))
        return 0

    monkeypatch.setattr(messages, "_export", take)
    path = tmp_path / "a file.jsonl"
    assert main(shlex.split(export_command(path, queue, scope, server=SERVER, ns=ns, profile=""))[1:]) == 0
    ((options, given),) = taken
    assert given.text == wanted
    assert given.terms == parse_filter(wanted).terms
    found = queue_of(options.queue, options, profile_of(options))
    assert (found.queue, found.place.server, found.place.ns) == (queue, SERVER, ns)
    assert options.output == str(path)
    for refused in (marked("a b"), marked(*map(str, range(51)))):
        with pytest.raises(NoCommandError, match="cannot name"):
            export_command(path, queue, refused, server=SERVER, ns=ns, profile="")


def test_a_known_trouble_has_a_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(shlex.split(known_command("mail", "-x 'y'", "2h", server=SERVER, ns=LIST.ns, profile=""))[1:]) == 0
    assert (
        main(shlex.split(known_command("orders", "", "until it is ok", server=SERVER, ns="jobs", profile=""))[1:]) == 0
    )
    assert main(shlex.split(known_command("mail", "-x 'y'", None, server=SERVER, ns=LIST.ns, profile=""))[1:]) == 0
    with closing(KnownStore(state_folder() / FILE_NAME)) as store:
        kept = {(each.server, each.ns, each.queue, each.note, each.is_active) for each in store.all()}
    assert kept == {(SERVER, LIST.ns, "mail", "-x 'y'", False), (SERVER, "jobs", "orders", "", True)}

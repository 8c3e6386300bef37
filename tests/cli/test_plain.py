"""`rsmq-tui --plain`: the overview as lines, for people who hear it."""

import re
import signal
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.cli.plain import PlainOverview
from rsmq_tui.events.detector import ServerDetector
from rsmq_tui.events.known import FILE_NAME, Known, KnownReader, KnownStore
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor import Snapshot, Thresholds, Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.tracking.series import Sample
from rsmq_tui.protocol import Address, Failure, Rsmq
from tests.cli.conftest import Command
from tests.cli.running import PROGRAM, environment, line_of, started
from tests.events.made import NOON_MS, SERVER, polled, state
from tests.hostile.terminal import Terminal
from tests.waiting import SECONDS_MAX

_FAILURE = Failure("refused", "connection refused", "is the server running?")


@pytest.fixture
def overview() -> PlainOverview:
    return PlainOverview("", "namespace rsmq", Thresholds(), ServerDetector(SERVER), clock=lambda: 1.0)


def stalled(name: str = "orders", **values: Any) -> Any:
    values = {
        "depth": 4,
        "ready": 3,
        "hidden": 1,
        "totalrecv": 1,
        "oldest_ready_ms": NOON_MS - 60_000,
        "oldest_ready_due_ms": NOON_MS - 40_000,
    } | values
    return state(name, Verdict.STALLED, since_ms=NOON_MS - 30_000, **values)


def at(lines: list[str]) -> list[str]:
    """The lines without their times, which each of them has."""
    assert all(line[2] == line[5] == ":" and line[8] == " " for line in lines)
    return [line[9:] for line in lines]


def test_first_all_queues_are_told_the_worst_first(overview: PlainOverview) -> None:
    first = overview.observe(polled(state("calm", depth=2, ready=2), stalled(), notes=("no right to read INFO",)))
    assert first[:2] == [f"{SERVER}, namespace rsmq: 2 queues, 1 in trouble; times in UTC", "no right to read INFO"]
    assert first[2].startswith("stalled orders: 3 ready, 1 hidden, waiting 40 s; 3 messages ready")
    assert first[3].startswith("ok calm: 2 ready, 0 hidden; nothing is wrong")
    assert overview.observe(polled(state("calm", depth=3, ready=3), stalled(), s=1)) == []


def test_counts_are_told_after_the_clock_of_the_server_was_set_back(overview: PlainOverview) -> None:
    overview.observe(polled(state("calm", depth=2, ready=2)))
    (line,) = overview.observe(polled(state("calm", depth=50, ready=50), s=-7_200))
    assert "ok calm: 50 ready" in line


def test_messages_that_came_back_are_told(overview: PlainOverview) -> None:
    first = polled(state("orders", depth=90, ready=90, vt_s=30))
    first.trend.add_queue("orders")
    for at_ms, ready, received in ((NOON_MS - 60_000, 100, 0), (NOON_MS, 90, 50)):
        first.trend.add_bucket(at_ms, [Sample(at_ms, ready, ready, 0, received)])
    (_, line) = overview.observe(first)
    assert line.endswith(
        "nothing is wrong; 40 or more of 50 received in 1m 0s came back: "
        "consumers fail, or need longer than the vt of 30 s"
    )


def test_of_equal_verdicts_the_longest_wait_comes_first_as_on_the_dashboard(overview: PlainOverview) -> None:
    queues = [stalled(name, oldest_ready_due_ms=NOON_MS - s * 1000) for name, s in (("a", 60), ("b", 90), ("c", 60))]
    queues[2] = queues[2]._replace(ready=9)
    lines = overview.observe(polled(*queues))[1:]
    assert [line.split()[1] for line in lines] == ["b:", "c:", "a:"]


def test_a_verdict_is_told_when_it_changes(overview: PlainOverview) -> None:
    overview.observe(polled(state("orders")))
    (line,) = at(overview.observe(polled(stalled(), s=1)))
    assert line.startswith("orders: stalled: 3 messages ready")
    assert overview.observe(polled(stalled(), s=2)) == []
    # That it is over is told when it has lasted.
    assert overview.observe(polled(state("orders"), s=3)) == []
    (line,) = at(overview.observe(polled(state("orders"), s=40)))
    assert line.startswith("orders: ok, was stalled for ")


def test_what_is_acknowledged_is_told(tmp_path: Path) -> None:
    with closing(KnownStore(tmp_path / FILE_NAME)) as store, closing(KnownReader(tmp_path / FILE_NAME)) as reader:

        def known(server: str, ns: str) -> Mapping[str, Known]:
            reader.read()
            return reader.of(server, ns)

        orders = Known(SERVER, "rsmq", "orders", "being deployed", 1)
        store.put(orders)
        overview = PlainOverview("", "namespace rsmq", Thresholds(), ServerDetector(SERVER), known=known)
        aged = state("mails", Verdict.AGED, since_ms=NOON_MS - 30_000, depth=1, ready=1)
        first = overview.observe(polled(state("calm"), stalled(), aged))
        assert first[0] == f"{SERVER}, namespace rsmq: 3 queues, 2 in trouble, 1 acknowledged; times in UTC"
        assert [line.split()[1].rstrip(":") for line in first[1:]] == ["mails", "orders", "calm"]
        assert first[2].endswith("; acknowledged until it is ok: being deployed")

        store.put(Known(SERVER, "rsmq", "mails", "", 2, now_ms() + 3_600_000))
        store.end(orders, 5)
        ended, begun = at(overview.observe(polled(state("calm"), stalled(), aged, s=1)))
        assert ended == "orders: its trouble is no longer acknowledged: somebody ended it"
        assert begun.startswith("mails: its trouble is acknowledged until 20")

        # What is known until it is ok has ended when it is, and is news when it comes back.
        store.put(orders._replace(since_ms=3))
        (begun,) = at(overview.observe(polled(state("calm"), stalled(), aged, s=2)))
        assert begun == "orders: its trouble is acknowledged until it is ok: being deployed"
        (ended,) = at(overview.observe(polled(state("calm"), state("orders"), aged, s=3)))
        assert ended == "orders: its trouble is no longer acknowledged: it is ok"
        for second in (4, 40):
            overview.observe(polled(state("calm"), state("orders"), aged, s=second))
        lines = at(overview.observe(polled(state("calm"), stalled(), aged, s=41)))
        assert len(lines) == 1
        assert lines[0].startswith("orders: stalled: ")
        assert "acknowledged" not in lines[0]


def test_trouble_that_begins_while_it_is_acknowledged_is_told_so() -> None:
    known = Known(SERVER, "rsmq", "orders", "a drill", 1, now_ms() + 3_600_000)
    overview = PlainOverview(
        "", "namespace rsmq", Thresholds(), ServerDetector(SERVER), known=lambda *_: {"orders": known}
    )
    overview.observe(polled(state("orders")))
    (line,) = at(overview.observe(polled(stalled(), s=1)))
    assert line.startswith("orders: stalled: 3 messages ready")
    assert line.endswith(f"; acknowledged {known.until}: a drill")


def test_expected_trouble_is_told_so_and_comes_last() -> None:
    overview = PlainOverview(
        "", "namespace rsmq", Thresholds(), ServerDetector(SERVER), expected=Expected(("rsmq:*-dead", "calm"))
    )
    aged = state("orders", Verdict.AGED, since_ms=NOON_MS - 30_000, depth=1, ready=1)
    first = overview.observe(polled(state("calm"), stalled("mail-dead"), aged, state("b-dead")))
    assert first[0] == f"{SERVER}, namespace rsmq: 4 queues, 2 in trouble, 1 expected; times in UTC"
    assert [line.split()[1].rstrip(":") for line in first[1:]] == ["orders", "mail-dead", "b-dead", "calm"]
    assert [line.endswith("; expected") for line in first[1:]] == [False, True, False, False]
    (line,) = at(overview.observe(polled(state("calm"), stalled("mail-dead"), aged, stalled("b-dead"), s=1)))
    assert line.startswith("b-dead: stalled: 3 messages ready")
    assert line.endswith("; expected")


def test_maintenance_is_told() -> None:
    spans = ((0, now_ms() + 3_600_000),)
    overview = PlainOverview("", "namespace rsmq", Thresholds(), ServerDetector(SERVER), expected=Expected((), spans))
    first, *_ = overview.observe(polled(state("calm")))
    # It began on another day.
    assert first.startswith(f"1970-01-01 {SERVER}: maintenance until ")
    assert first.endswith(": no alerts are sent")
    assert overview.observe(polled(state("calm"), s=1)) == []


def test_an_unreadable_file_of_acknowledgements_is_told_once(redis_url: str, client: Redis, tmp_path: Path) -> None:
    env = environment(XDG_STATE_HOME=str(tmp_path))
    (tmp_path / "rsmq-tui").mkdir()
    (tmp_path / "rsmq-tui" / FILE_NAME).write_bytes(b"not SQLite" * 100)
    with started(*PROGRAM, "-r", redis_url, "--interval", "0.1", "--no-memory", "--plain", env=env) as process:
        assert "0 queues, none in trouble" in line_of(process.stdout)
        Rsmq(client).create_queue("mails")
        assert line_of(process.stdout).endswith(" mails: created\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 130
        _, errors = process.communicate()
    assert errors.count("known.sqlite") == 1


def test_queues_that_come_and_go_are_told(overview: PlainOverview) -> None:
    overview.observe(polled(state("orders", depth=2)))
    assert at(overview.observe(polled(state("mails"), s=1))) == [
        "orders: deleted, with 2 messages at the previous poll",
        "mails: created",
    ]


def test_a_server_that_is_gone_and_back_is_told_once(overview: PlainOverview) -> None:
    overview.observe(polled(state("orders")))
    assert at(overview.observe(polled(state("orders"), failure=_FAILURE))) == [
        f"{SERVER}: does not answer: connection refused"
    ]
    assert overview.observe(polled(state("orders"), failure=_FAILURE)) == []
    assert at(overview.observe(polled(state("orders"), s=2))) == [f"{SERVER}: answers again after at most 2 s"]


def test_a_server_that_is_gone_from_the_start_shows_its_queues_later(overview: PlainOverview) -> None:
    assert at(overview.observe(Snapshot(0, SERVER, "rsmq", connection=polled(failure=_FAILURE).connection))) != []
    lines = overview.observe(polled(state("orders"), s=5))
    assert lines[-2:] == [
        f"{SERVER}, namespace rsmq: 1 queue, none in trouble; times in UTC",
        "ok orders: 0 ready, 0 hidden; empty",
    ]


def test_counts_are_told_once_a_minute_if_they_changed_by_a_tenth(overview: PlainOverview) -> None:
    def counted(s: float, **depths: int) -> list[str]:
        states = (state(name, depth=depth, ready=depth) for name, depth in depths.items())
        return overview.observe(polled(*states, s=s))

    counted(0, many=1000, few=10, none=0)
    assert counted(30, many=2000, few=20, none=5) == []
    printed = at(counted(60, many=1100, few=12, none=1))
    assert [line.split(";")[0] for line in printed] == ["ok few: 12 ready, 0 hidden", "ok none: 1 ready, 0 hidden"]
    # What was told last counts, and not each minute.
    assert [line.split(":")[0] for line in at(counted(120, many=1101, few=13, none=1))] == ["ok many"]
    assert counted(179, many=9, few=9, none=9) == []


def test_several_places_are_named() -> None:
    server = ServerDetector(SERVER)
    overview = PlainOverview("prod-eu", "namespace rsmq", Thresholds(), server, server_name="prod-eu")
    first = overview.observe(polled(state("orders")))
    assert first == [
        "prod-eu: 1 queue, none in trouble; times in UTC",
        "ok orders on prod-eu: 0 ready, 0 hidden; empty",
    ]
    assert at(overview.observe(polled(state("orders"), state("mails"), s=1))) == ["mails on prod-eu: created"]
    assert at(overview.observe(polled(failure=_FAILURE))) == ["prod-eu: does not answer: connection refused"]


def test_a_place_that_cannot_be_read_is_told_though_its_server_answers() -> None:
    server = ServerDetector(SERVER)
    queues, lists = (
        PlainOverview(name, name, Thresholds(), server, server_name="shop", clock=lambda: 1.0)
        for name in ("shop", "shop lists")
    )
    queues.observe(polled(state("orders")))
    lists.observe(polled(state("mails")))
    denied = Failure("noperm", "no permission to run KEYS", "")
    assert [at(lists.observe(polled(failure=denied))) for _ in range(4)] == [
        [], [], ["shop lists: cannot be read: no permission to run KEYS"], []
    ]  # fmt: skip
    assert at(lists.observe(polled(state("mails"), s=9))) == ["shop lists: can be read again"]
    # If the whole server is gone, that is told, once.
    printed = [
        line for _ in range(4) for each in (lists, queues) for line in at(each.observe(polled(failure=_FAILURE)))
    ]
    assert printed == ["shop: does not answer: connection refused"]
    assert len([*lists.observe(polled(state("mails"), s=20)), *queues.observe(polled(state("orders"), s=20))]) == 1


@pytest.mark.parametrize("server_name", ["shop", ""])
def test_what_happens_to_a_server_has_one_name_whichever_place_finds_it(server_name: str) -> None:
    server = ServerDetector(SERVER)
    queues, lists = (
        PlainOverview(name, name, Thresholds(), server, server_name=server_name, clock=lambda: 1.0)
        for name in ("rsmq", "lists")
    )
    for each in (queues, lists):
        each.observe(polled(state("orders")))
    printed = [line for each in (lists, queues) for line in at(each.observe(polled(failure=_FAILURE, s=1)))]
    printed += [line for each in (lists, queues) for line in at(each.observe(polled(state("orders"), s=9)))]

    about = server_name or SERVER
    assert printed == [f"{about}: does not answer: connection refused", f"{about}: answers again after at most 9 s"]


def test_it_is_printed_line_by_line_and_ctrl_c_ends_it(redis_url: str, client: Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders")
    rsmq.send_messages("orders", ["one", "two"])
    with started(*PROGRAM, "-r", redis_url, "--interval", "0.1", "--no-memory", "--plain") as process:
        assert "namespace rsmq: 1 queue, none in trouble" in line_of(process.stdout)
        assert " orders: 2 ready, 0 hidden, waiting " in line_of(process.stdout)
        rsmq.create_queue("mails")
        assert line_of(process.stdout).endswith(" mails: created\n")
        client.hset("rsmq:orders:Q", "vt", "many")
        assert " orders: broken: " in line_of(process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 130
        assert process.communicate() == (
            "",
            f"rsmq-tui: watching namespace rsmq on {Address(redis_url).label}; Ctrl+C ends it\n",
        )


def test_it_ends_when_nobody_reads_it_any_more(redis_url: str, client: Redis) -> None:
    with started(*PROGRAM, "-r", redis_url, "--no-memory", "--plain") as process:
        assert "0 queues, none in trouble" in line_of(process.stdout)
        assert (
            line_of(process.stderr)
            == f"rsmq-tui: watching namespace rsmq on {Address(redis_url).label}; Ctrl+C ends it\n"
        )
        assert process.stdout is not None
        process.stdout.close()
        # Although it has nothing to say.
        assert process.wait(SECONDS_MAX) == 141
        assert line_of(process.stderr) == ""


def test_a_server_that_ends_is_told() -> None:
    with EmbeddedServer() as server:
        arguments = ("-r", server.url, "--interval", "0.1", "--no-memory", "--plain")
        with started(*PROGRAM, *arguments) as process:
            assert "0 queues" in line_of(process.stdout)
            server.stop()
            assert " does not answer: " in line_of(process.stdout)
            process.terminate()
            assert process.wait(SECONDS_MAX) == 0


def test_names_are_printed_without_what_controls_a_terminal(redis_url: str, client: Redis, tmp_path: Path) -> None:
    name = "or\x1b[2Jders\r\nok all"
    client.sadd("rsmq:QUEUES", name)
    with Terminal("-r", redis_url, "--no-memory", "--plain", settings=tmp_path) as terminal:
        terminal.wait_for("broken or", "1 in trouble")
        # No colours, no boxes, nothing that moves the cursor.
        assert b"\x1b" not in terminal.output
        assert len([line for line in terminal.screen.text.splitlines() if line.strip()]) == 3
        terminal.type("\x03")
        assert terminal.wait_for_end() == 130


def test_with_ascii_lines_have_ascii_signs_and_escapes(redis_url: str, client: Redis) -> None:
    client.sadd("rsmq:QUEUES", "or\x1b[2Jdérs")
    with started(*PROGRAM, "-r", redis_url, "--no-memory", "--plain", "--ascii") as process:
        line_of(process.stdout)
        line = line_of(process.stdout)
        assert "or\\x1b[2Jdérs: - ready, - hidden" in line
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 130


@pytest.mark.parametrize("option", ["--record", "--analysis", "--theme", "--open"])
def test_what_needs_a_screen_is_refused(anywhere: Command, option: str) -> None:
    done = anywhere(option, "queue/orders", "--plain")
    assert (done.status, done.err) == (2, f"rsmq-tui: --plain only prints lines, and takes no {option}\n")


def test_the_demo_can_be_printed() -> None:
    with started(*PROGRAM, "demo", "--plain", "--scenario", "healthy", env=environment()) as process:
        assert re.search(r": \d+ queues?, ", line_of(process.stdout))
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 130

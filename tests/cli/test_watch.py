"""`rsmq-tui watch`: alerts without a screen, and those of the dashboard, on a real server."""

import json
import re
import signal
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command, write
from tests.cli.running import PROGRAM, environment, line_of, started
from tests.hostile.terminal import Terminal
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.slow

_RULE = '[[alerts]]\nname = "pile"\nwhen = "depth > 1"\n'


def test_once_tells_what_is_wrong_now_and_sends_it(anywhere: Command, config: Path, tmp_path: Path) -> None:
    got = tmp_path / "got"
    write(config, f'{_RULE}for = "1h"\n[channels.pager]\ncommand = ["sh", "-c", "cat >> {got}"]\n')

    done = anywhere("--config", str(config), "watch", "--once")
    (printed,) = done.lines
    assert (done.status, done.err) == (0, "")
    assert (printed["alert"], printed["state"], printed["profile"], printed["ns"]) == ("pile", "firing", "shop", "rsmq")
    assert printed["queues"] == [{"queue": "orders", "verdict": "ok", "depth": 2, "reason": "depth 2 (depth > 1)"}]
    assert json.loads(got.read_text()) == printed
    shown = anywhere("--config", str(config), "watch", "--once", terminal=True).text
    assert shown[19:] == " UTC  rsmq-tui: pile: shop rsmq: orders: depth 2 (depth > 1)\n"


def test_once_tells_servers_that_are_gone(anywhere: Command, config: Path) -> None:
    write(config, '[[alerts]]\nwhen = "server gone"\nchannels = ["pager"]\n[channels.pager]\ncommand = ["true"]\n')

    (printed,) = anywhere("--config", str(config), "--profile", "shop,dead", "watch", "--once").lines
    assert (printed["profile"], printed["ns"], printed["queues"]) == ("dead", None, [])
    assert "does not answer" in printed["text"]


def test_once_says_of_which_rules_one_poll_cannot_tell(anywhere: Command, config: Path) -> None:
    rules = ("growing", "full in < 2h", "server restarted", "depth > 1000")
    write(config, "\n".join(f"[[alerts]]\nwhen = '{when}'\nchannels = ['pager']" for when in rules))
    with config.open("a") as file:
        file.write('\n[channels.pager]\ncommand = ["true"]\n')

    done = anywhere("--config", str(config), "watch", "--once")
    words = "one poll cannot tell: growing, full in < 2h, server restarted; `rsmq-tui watch` without --once can"
    assert (done.status, done.lines, done.err) == (0, [], f"rsmq-tui: {words}\n")


def test_once_says_what_could_not_be_sent(anywhere: Command, config: Path) -> None:
    write(config, f'{_RULE}[channels.pager]\ncommand = ["sh", "-c", "echo no signal >&2; exit 1"]\n')

    done = anywhere("--config", str(config), "watch", "--once")
    assert (done.status, len(done.lines)) == (1, 1)
    assert "channel pager: sh ended with status 1: no signal" in done.err
    assert "not sent: 1 message by pager" in done.err


def test_a_mistake_is_told_and_the_other_rules_are_used(anywhere: Command, config: Path) -> None:
    write(config, f'[[alerts]]\nwhen = "staled"\n{_RULE}channels = ["pager"]\n[channels.pager]\ncommand = ["true"]\n')

    done = anywhere("--config", str(config), "watch", "--once")
    assert (done.status, len(done.lines)) == (0, 1)
    assert f"{config}:7: when must be one of broken" in done.err
    # Other commands say nothing of it.
    assert anywhere("--config", str(config), "queues", "list").err == ""


def test_without_rules_there_is_nothing_to_watch(
    anywhere: Command, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = anywhere("--config", str(config), "watch", "--test", "pager")
    words = "rsmq-tui: there is no channel pager: bell, terminal; `rsmq-tui help alerts` describes rules and channels\n"
    assert (done.status, done.err) == (2, words)
    monkeypatch.delenv("RSMQ_TUI_CONFIG", raising=False)
    done = anywhere("watch", "--test", "pager")
    assert (done.status, done.err) == (2, words.replace(": bell, terminal", ""))
    done = anywhere("--config", str(config), "watch")
    assert done.status == 2
    assert f"{config} has no [[alerts]]; `rsmq-tui help alerts` describes rules and channels" in done.err
    write(config, '[[alerts]]\nwhen = "staled"\n')
    done = anywhere("--config", str(config), "watch")
    assert done.status == 2
    assert "did you mean stalled?" in done.err
    assert "no rule can be used" in done.err


def test_a_restart_repeats_nothing_and_other_programs_send_nothing_twice(
    state: Path, config: Path, client: Redis, tmp_path: Path
) -> None:
    got = tmp_path / "got"
    write(config, f'{_RULE}[channels.pager]\ncommand = ["sh", "-c", "cat >> {got}"]\n')
    env = environment(HOME=str(state), XDG_STATE_HOME=str(state))
    watch = (*PROGRAM, "--config", str(config), "--interval", "0.2", "watch")

    with started(*watch, env=env) as first:
        assert json.loads(line_of(first.stdout))["queues"][0]["queue"] == "orders"
        with started(*watch, env=env) as second:
            line_of(second.stderr)
            Rsmq(client).create_queue("mail")
            Rsmq(client).send_messages("mail", ["one", "two"])
            # The new one only: it was started after the other was told.
            (queue,) = json.loads(line_of(second.stdout))["queues"]
            assert queue["queue"] == "mail"
            second.terminate()
            assert second.wait(SECONDS_MAX) == 0
        first.terminate()
        assert first.wait(SECONDS_MAX) == 0
    printed = [json.loads(line) for line in got.read_text().splitlines()]
    assert printed[0]["queues"][0]["queue"] == "orders"
    assert sum(one["count"] for one in printed) == 2


def test_without_a_terminal_its_channels_are_no_use(anywhere: Command, config: Path) -> None:
    write(config, _RULE)

    done = anywhere("--config", str(config), "watch", "--once")
    assert (done.status, len(done.lines)) == (1, 1)
    assert "no channel works without a terminal: messages are only printed" in done.err
    assert done.err.endswith("rsmq-tui: not sent: 1 message by bell, 1 message by terminal\n")


def test_a_message_without_a_channel_is_not_sent(anywhere: Command, config: Path) -> None:
    write(config, f'{_RULE}channels = ["pager"]\n[channels.pager]\ncomand = ["true"]\n')

    done = anywhere("--config", str(config), "watch", "--once")
    assert (done.status, len(done.lines)) == (1, 1)
    assert done.err.count("unknown key comand in [channels.pager]") == 1
    assert "not sent: 1 message by pager" in done.err


def test_a_file_that_is_missing_or_damaged_stops_nothing(state: Path, config: Path, anywhere: Command) -> None:
    done = anywhere("--config", str(config.parent / "none.toml"), "watch", "--once")
    assert done.status == 2
    write(config, f'{_RULE}[channels.pager]\ncommand = ["true"]\n')
    damaged = state / "rsmq-tui" / "alerts.sqlite"
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_bytes(b"not a database" * 1_000)
    env = environment(HOME=str(state), XDG_STATE_HOME=str(state))

    with started(*PROGRAM, "--config", str(config), "--interval", "0.2", "watch", env=env) as process:
        line_of(process.stderr)
        sentence = f"the file of sent alerts {damaged} cannot be used: it is not one of rsmq-tui, or it is damaged"
        assert sentence in line_of(process.stderr)
        assert json.loads(line_of(process.stdout))["alert"] == "pile"
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0


def test_a_channel_is_tried(anywhere: Command, config: Path, tmp_path: Path) -> None:
    got = tmp_path / "got"
    write(config, f'[channels.pager]\ncommand = ["sh", "-c", "cat > {got}"]\n[channels.ill]\ncommand = ["false"]\n')

    done = anywhere("--config", str(config), "watch", "--once", "--test", "pager")
    assert (done.status, done.err) == (0, "rsmq-tui: sent by channel pager\n")
    assert json.loads(got.read_text())["state"] == "test"
    done = anywhere("--config", str(config), "watch", "--test", "ill")
    assert (done.status, done.err) == (1, "rsmq-tui: channel ill: false ended with status 1\n")
    assert "channel bell: there is no terminal" in anywhere("--config", str(config), "watch", "--test", "bell").err
    done = anywhere("--config", str(config), "watch", "--test", "pagr")
    assert done.status == 2
    assert "there is no channel pagr; did you mean pager?: bell, terminal, pager, ill; `rsmq-tui help " in done.err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_watches_until_a_signal_ends_it(state: Path, config: Path, number: signal.Signals, status: int) -> None:
    write(config, f'{_RULE}[channels.pager]\ncommand = ["true"]\n')
    env = environment(HOME=str(state), XDG_STATE_HOME=str(state))

    with started(*PROGRAM, "--config", str(config), "--interval", "0.2", "watch", env=env) as process:
        assert line_of(process.stderr) == "rsmq-tui: watching namespace rsmq on shop, by 1 rule; Ctrl+C stops it\n"
        printed = json.loads(line_of(process.stdout))
        assert (printed["alert"], printed["count"], printed["queues"][0]["queue"]) == ("pile", 1, "orders")
        process.send_signal(number)
        assert process.wait(SECONDS_MAX) == status
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_it_records_events_and_goes_on_without_a_server(state: Path, config: Path) -> None:
    write(config, '[[alerts]]\nwhen = "server gone"\n[channels.pager]\ncommand = ["false"]\n')
    env = environment(HOME=str(state), XDG_STATE_HOME=str(state))

    with started(*PROGRAM, "--config", str(config), "--profile", "dead", "watch", env=env) as process:
        line_of(process.stderr)
        assert json.loads(line_of(process.stdout))["alert"] == "server gone"
        problem = line_of(process.stderr)
        assert re.fullmatch(r"rsmq-tui: [-\d]{10} [:\d]{8} UTC  channel pager: false ended with status 1\n", problem)
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0
        assert process.stderr is not None
        assert process.stderr.read() == "rsmq-tui: not sent: 1 message by pager\n"
    with started(*PROGRAM, "events", "--json", env=env) as process:
        assert json.loads(line_of(process.stdout))["kind"] == "lost"


def test_a_notification_in_a_real_terminal(config: Path, tmp_path: Path) -> None:
    options = ("--config", str(config), "watch", "--test")
    kitty = {"TERM": "xterm-kitty"}
    with Terminal(*options, "terminal", settings=tmp_path, environment=kitty) as terminal:
        assert terminal.wait_for_end() == 0
    body = rb"\x1b\]99;i=\1:p=body;this is a test of a channel\x1b\\"
    assert re.search(rb"\x1b\]99;i=(rsmq-tui-\w+):d=0;rsmq-tui: test: test\x1b\\" + body, terminal.output)
    with Terminal(*options, "terminal", settings=tmp_path) as terminal:
        assert terminal.wait_for_end() == 0
    assert b"\a" in terminal.output
    assert b"\x1b]" not in terminal.output


def test_the_dashboard_notifies_in_its_own_terminal(config: Path, client: Redis, tmp_path: Path) -> None:
    name = "a\x1b]0;evil\x07"
    client.sadd("rsmq:QUEUES", name)
    client.hset(f"rsmq:{name}:Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536})
    client.zadd(f"rsmq:{name}", {"one": 1, "two": 2})
    write(config, _RULE)
    arguments = ("--config", str(config), "--interval", "0.2")
    foot = {"TERM": "foot", "XDG_STATE_HOME": str(tmp_path)}
    with Terminal(*arguments, settings=tmp_path, environment=foot) as terminal:
        terminal.wait_for("orders")
        while b"]777;" not in terminal.output:
            terminal.wait_for_output()
        # The rest of the sequence.
        while b"\x1b\\" not in terminal.output[terminal.output.index(b"]777;") :]:
            terminal.wait_for_output()
        terminal.type("q")
        assert terminal.wait_for_end() == 0
    sequence = terminal.output.split(b"\x1b]777;notify;")[1].split(b"\x1b\\")[0].decode()
    assert sequence.startswith("rsmq-tui: pile;shop rsmq: 2 queues: depth > 1, for 5 s: a␛]0;evil␇, orders")
    assert b"\x1b]0;evil" not in terminal.output


def test_the_dashboard_without_alerts(config: Path, tmp_path: Path) -> None:
    write(config, '[[alerts]]\nwhen = "staled"\n')
    state = {"XDG_STATE_HOME": str(tmp_path)}
    with Terminal("--config", str(config), settings=tmp_path, environment=state) as terminal:
        terminal.wait_for("orders", "alert 1")
        terminal.type("q")
        assert terminal.wait_for_end() == 0
    arguments = ("--config", str(config), "--no-alerts", "--interval", "0.1")
    with Terminal(*arguments, settings=tmp_path, environment=state) as terminal:
        terminal.wait_for("orders")
        terminal.type("?")
        terminal.wait_for("Show only queues")
        assert "alert 1" not in terminal.screen.text
        terminal.type("qq")
        assert terminal.wait_for_end() == 0

"""Rules and channels of the configuration file: what they may say, and what is told of everything else."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from rsmq_tui.profiles.alerts import Alerts, Channel, Condition, Quiet, Rule, read_condition, read_quiet
from rsmq_tui.profiles.config import read_config

_PROFILE = '[profiles.a]\nhost = "h"\n'


def read(folder: Path, text: str, mode: int = 0o600) -> Alerts:
    path = folder / "config.toml"
    path.write_text(text)
    path.chmod(mode)
    config = read_config(path)
    assert list(config.profiles) == (["a"] if _PROFILE in text else [])
    return config.alerts


def problems(folder: Path, text: str, mode: int = 0o600) -> list[str]:
    """What is told of a file, after its path."""
    sentence = [problem.removeprefix(f"{folder / 'config.toml'}:") for problem in read(folder, text, mode).problems]
    assert "hunter2" not in "".join(sentence)
    return sentence


def test_a_file_without_rules_has_the_terminal_alone(tmp_path: Path) -> None:
    alerts = read(tmp_path, _PROFILE)

    assert (alerts.rules, alerts.problems, list(alerts.channels)) == ((), (), ["bell", "terminal"])


def test_a_rule_with_all_its_keys(tmp_path: Path) -> None:
    alerts = read(
        tmp_path,
        f"""{_PROFILE}
        [[alerts]]
        name = "pile"
        queues = ["orders", "mail-*"]
        profiles = "a"
        when = "Depth  > 1000"
        for = "2m"
        repeat = "1h"
        quiet = "22:00-06:00"
        channels = ["bell", "pager"]
        resolved = false
        [channels.pager]
        command = "page --now"
        timeout = "20s"
        """,
    )

    assert alerts.problems == ()
    assert alerts.rules == (
        Rule(
            "pile", Condition("depth > 1000", "depth", 1000), ("orders", "mail-*"), ("a",), 120_000, 3_600_000,
            Quiet(22 * 60, 6 * 60), ("bell", "pager"), False,
        ),
    )  # fmt: skip
    assert alerts.channels["pager"] == Channel("pager", "command", command=("page", "--now"), timeout_s=20.0)


def test_a_rule_is_named_by_its_condition_and_sent_by_all_channels(tmp_path: Path) -> None:
    rule = '[[alerts]]\nwhen = "stalled"\n'

    (alone,) = read(tmp_path, rule).rules
    assert (alone.name, alone.channels, alone.resolved, alone.for_ms) == ("stalled", ("bell", "terminal"), True, 0)
    (among,) = read(tmp_path, f"{rule}[channels.one]\nbell = true\n[channels.two]\nterminal = 'osc9'\n").rules
    assert among.channels == ("one", "two")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("stalled", Condition("stalled", "stalled")),
        ("trouble", Condition("trouble", "trouble")),
        ("Server Gone", Condition("server gone", "server gone")),
        ("server restarted", Condition("server restarted", "server restarted")),
        ("depth>5", Condition("depth>5", "depth", 5)),
        ("depth >= 5", Condition("depth >= 5", "depth", 5, or_equal=True)),
        ("depth > 50,000", Condition("depth > 50,000", "depth", 50_000)),
        ("oldest > 1h30m", Condition("oldest > 1h30m", "oldest", 5_400_000)),
        ("receive count > 5", Condition("receive count > 5", "receive count", 5)),
        ("expired leases > 0", Condition("expired leases > 0", "expired leases", 0)),
        ("full in < 2h", Condition("full in < 2h", "full in", 7_200_000)),
        ("Memory full in <= 90m", Condition("memory full in <= 90m", "memory full in", 5_400_000, or_equal=True)),
    ],
)
def test_conditions(text: str, condition: Condition) -> None:
    assert read_condition(text) == condition


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("staled", "did you mean stalled?"),
        ("ok", "must be one of broken, stalled"),
        ("watching", "must be one of broken, stalled"),
        ("deph > 5", "has no number deph: .*; did you mean depth"),
        ("full in > 1h", "must be below a limit: write full in < 1h or full in <= 1h"),
        ("ful in < 1h", "has no number ful in: .*; did you mean full in"),
        ("memory full in < 5", "no number behind <: a duration has a unit"),
        ("depth < 5", "must be above a limit: write depth > 5"),
        ("depth > many", "no number behind >: it must be a whole number"),
        ("depth > 1.5", "no number behind >: it must be a whole number"),
        ("depth > 50,00", "no number behind >: it must be a whole number"),
        ("oldest > 10", "no number behind >: a duration has a unit"),
        ("oldest > -1m", "it must not be below 0"),
        ("", "must be a string in quotes"),
    ],
)
def test_what_is_no_condition(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_condition(text)


def test_mistakes_are_told_with_their_lines_and_leave_out_no_others(tmp_path: Path) -> None:
    text = f"""{_PROFILE}[[alerts]]
when = "stalled"
[[alerts]]
when = "stalled"
[[alerts]]
name = "typo"
wen = "stalled"
[[alerts]]
for = "2m"
[[alerts]]
when = "oldest > 10"
[[alerts]]
when = "growing"
channels = ["pagr"]
profiles = ["b"]
[[alerts]]
when = "server gone"
queues = ["x"]
[[alerts]]
when = "memory full in < 1h"
queues = ["x"]
[[alerts]]
name = "good"
when = "aged"
channels = ["pager", "broken"]
[channels.pager]
command = ["page"]
[channels.broken]
comand = ["page"]
[channels.both]
bell = true
command = ["page"]
[channels.none]
timeout = "5s"
[[alerts]]
when = "growing"
queues = ["list:a/b", "rsmq:rsmq/orders"]
"""
    alerts = read(tmp_path, text)

    assert [rule.name for rule in alerts.rules] == ["stalled", "good"]
    assert list(alerts.channels) == ["bell", "terminal", "pager"]
    sentence = problems(tmp_path, text)
    for line, words in (
        (5, "name stalled is used by an earlier rule"),
        (9, "unknown key wen in [alerts]; did you mean when?"),
        (10, "a rule needs when"),
        (13, "when has no number behind >"),
        (16, "channels names pagr, but there is no [channels.pagr]; did you mean pager?"),
        (17, "profiles names b, but there is no [profiles.b]"),
        (20, 'queues cannot be combined with when = "server gone"'),
        (23, 'queues cannot be combined with when = "memory full in < 1h"'),
        (31, "unknown key comand in [channels.broken]; did you mean command?"),
        (32, "a channel needs one of bell, terminal, command, apprise"),
        (35, "a channel needs one of"),
        (39, "queues cannot name a namespace: write rsmq:orders, for the queue in every namespace"),
    ):
        assert any(one.startswith(f"{line}: ") and words in one for one in sentence), (line, words, sentence)
    assert len(sentence) == 12


@pytest.mark.parametrize("text", ['alerts = "stalled"', "alerts = [1]", "channels = 5", "[channels]\npager = 1"])
def test_what_are_no_tables_is_one_problem(tmp_path: Path, text: str) -> None:
    assert len(problems(tmp_path, text)) == 1


def test_urls_in_a_file_that_others_can_read_are_refused(tmp_path: Path) -> None:
    text = '[channels.mail]\napprise = "mailto://bob:hunter2@h"\n'

    assert "other users can read this file" in problems(tmp_path, text, 0o644)[0]
    alerts = read(tmp_path, text)
    assert [url() for url in alerts.channels["mail"].urls] == ["mailto://bob:hunter2@h"]
    assert "hunter2" not in repr(alerts)


def test_urls_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "json://one")
    secret = tmp_path / "hook"
    secret.write_text("json://two\n")
    secret.chmod(0o600)
    text = (
        '[channels.mail]\napprise_env = "HOOK"\napprise_file = "hook"\napprise_command = "echo json://three"\n'
        'apprise = ["json://four", "json://five"]\n'
    )

    urls = read(tmp_path, text).channels["mail"].urls
    assert [url() for url in urls] == ["json://four", "json://five", "json://one", "json://two", "json://three"]


def at(text: str, zone: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def test_quiet_hours_over_midnight() -> None:
    quiet = read_quiet("22:00-06:00 Europe/Berlin")
    days = {"21:59": False, "22:00": True, "23:59": True, "00:00": True, "05:59": True, "06:00": False, "12:00": False}

    assert {time: quiet.holds(at(f"2031-05-17T{time}", "Europe/Berlin")) for time in days} == days


def test_quiet_hours_within_a_day_and_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    quiet = read_quiet("9:30 - 17:00")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert not quiet.holds(at("2031-05-17T09:29", "Asia/Tokyo"))
        assert quiet.holds(at("2031-05-17T09:30", "Asia/Tokyo"))
        assert not quiet.holds(at("2031-05-17T17:00", "Asia/Tokyo"))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_quiet_hours_follow_the_clock_when_it_is_changed() -> None:
    berlin = "Europe/Berlin"
    quiet = read_quiet(f"22:00-06:00 {berlin}")

    # The night of spring has seven hours, that of autumn nine: both end at six by the clock.
    for day, hours in (("2031-03-30", 7), ("2031-10-26", 9)):
        end_s = at(f"{day}T06:00", berlin)
        assert quiet.holds(end_s - 1)
        assert not quiet.holds(end_s)
        assert quiet.holds(end_s - hours * 3600)
        assert not quiet.holds(end_s - hours * 3600 - 1)


@pytest.mark.parametrize("text", ["22-6", "24:00-06:00", "22:00", "22:00-22:00", "22:00-06:00 Nowhere/Town", ""])
def test_what_are_no_quiet_hours(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be two|has a time zone"):
        read_quiet(text)

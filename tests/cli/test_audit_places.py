"""`rsmq-tui audit` of several namespaces, and fixes of several queues one after the other."""

from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.cli.parsing import Options
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.actions import Action
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.scope import Preview
from rsmq_tui.triage.service import ChangeService
from tests.cli.conftest import Command, Done


class TestNamespaces:
    """All that the profile names, unless --ns names one."""

    @pytest.fixture
    def profiled(self, anywhere: Command, client: Redis, orders: Rsmq, redis_url: str, tmp_path: Path) -> Command:
        """`rsmq` with a leak in `orders`; `jobs` with one in `orders` and a ghost; `idle` with nothing."""
        config = tmp_path / "config.toml"
        config.write_text(f'[profiles.here]\nurl = "{redis_url}"\nnamespaces = ["rsmq", "jobs", "idle"]\n')
        Rsmq(client, ns="jobs").create_queue("orders")
        client.sadd("jobs:QUEUES", "ghost")
        for ns in ("rsmq", "jobs"):
            client.hset(f"{ns}:orders:Q", "c" * 32, "leaked")

        def command(*arguments: str, terminal: bool = False) -> Done:
            return anywhere("--config", str(config), "--profile", "here", *arguments, terminal=terminal)

        return command

    def test_all_are_audited(self, profiled: Command) -> None:
        done = profiled("audit")
        assert done.status == 1
        found = [(line["ns"], line["queue"], line["kind"]) for line in done.lines]
        assert found[0] == ("rsmq", "orders", "leaked")
        assert set(found[1:]) == {("jobs", "orders", "leaked"), ("jobs", "ghost", "ghost")}
        assert "5 queues, " in done.err
        assert "3 findings in 3 queues" in done.err
        words = profiled("audit", terminal=True).text
        assert all(heading in words for heading in ("orders (ns rsmq)\n", "orders (ns jobs)\n", "ghost (ns jobs)\n"))

    def test_one_is_named(self, profiled: Command) -> None:
        done = profiled("audit", "--ns", "rsmq", terminal=True)
        assert done.text.startswith("orders\n")
        assert {line["ns"] for line in profiled("audit", "--ns", "jobs").lines} == {"jobs"}

    def test_a_queue_is_looked_for_in_all(self, profiled: Command) -> None:
        assert [line["ns"] for line in profiled("audit", "--queue", "ghost").lines] == ["jobs"]
        assert [line["ns"] for line in profiled("audit", "--queue", "orders").lines] == ["rsmq", "jobs"]
        done = profiled("audit", "--queue", "orders", "--queue", "nope")
        assert (done.status, done.out) == (2, b"")
        assert ": no such queue in namespace rsmq or namespace jobs or namespace idle; " in done.err

    def test_all_are_fixed(self, profiled: Command, client: Redis) -> None:
        previews = [line for line in profiled("audit", "--fix").lines if line.get("preview")]
        assert {(line["ns"], line["queue"]) for line in previews} == {
            ("rsmq", "orders"),
            ("jobs", "orders"),
            ("jobs", "ghost"),
        }
        assert profiled("audit", "--fix", "--yes").status == 0
        assert profiled("audit").status == 0
        assert not client.hexists("jobs:orders:Q", "c" * 32)


class TestSeveralFixes:
    """One after the other, each for itself."""

    def test_the_configuration_is_read_once(
        self, command: Command, trouble: Rsmq, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is fixed is what was audited, whatever a file says by then."""
        read = 0

        def counted(options: Options) -> Profile:
            nonlocal read
            read += 1
            return profile_of(options)

        for module in ("commands.audit", "changes"):
            monkeypatch.setattr(f"rsmq_tui.cli.{module}.profile_of", counted)
        assert command("audit", "--fix", "--yes").status == 1
        assert read == 1

    @pytest.mark.parametrize("yes", [["--yes"], []])
    def test_one_that_is_refused_keeps_none_of_the_others(
        self, yes: list[str], command: Command, trouble: Rsmq, client: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        preview = ChangeService.preview

        async def refusing(triage: ChangeService, action: Action, *rest: object) -> Preview:
            if action.queue == "orders":
                raise TriageError("not now")
            return await preview(triage, action, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(ChangeService, "preview", refusing)
        done = command("audit", "--fix", *yes)
        printed = {line["queue"] for line in done.lines if "planned" in line}

        assert (done.status, printed) == (1, {"spare", "gone"})
        assert done.err.splitlines()[-1].startswith("rsmq-tui: queue orders was not fixed: orders on ")
        assert done.err.splitlines()[-1].endswith(": not now")
        assert client.sismember("rsmq:QUEUES", "spare") == bool(yes)

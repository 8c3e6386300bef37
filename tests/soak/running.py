"""Starts all that is watched beside a workload, and writes a sample each minute."""

import asyncio
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis

from rsmq_tui.cli.demo import WorkloadProcess
from tests.cli.running import PROGRAM, environment
from tests.clocked_server import ClockedServer
from tests.hostile.terminal import Terminal
from tests.soak import looking, users
from tests.soak.report import settled_s
from tests.waiting import SECONDS_MAX, wait_until
from tests.web.serving import serving

SAMPLES = "samples.jsonl"
LISTS = ("queue:*",)
# In a minute: what is open for a moment, a file or a connection, is missing in one of them.
_LOOKS = 20
# What the programs keep at most of any time: a day of each queue, and the last hour more finely.
_KEPT_S = 25 * 3600
# The part of the time before the judgement in which the server's clock goes through that.
_FIRST_PART = 0.3
# The server ends that long before now: what a program calls the future is none.
_BEHIND_S = 3600


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, how many queues that come and go, how fast, and where it is written.

    The server's clock and the workload run ``speed`` times as fast as the programs: what these keep of an hour fills
    in that part of it. In the first minutes the clock runs so fast that a day passes: what the programs keep of a day
    is there before the judgement begins, as with a program that has run for long.
    """

    seconds: float
    queues: int
    speed: int
    out: Path

    @property
    def every_s(self) -> float:
        """The time between two samples: a minute, or a sixtieth of a shorter run than an hour."""
        return min(60.0, self.seconds / 60)

    @property
    def settled_s(self) -> float:
        """The time after which nothing may grow."""
        return settled_s(self.seconds)

    @property
    def first_s(self) -> float:
        """How long the first minutes are."""
        return self.settled_s * _FIRST_PART

    @property
    def first_speed(self) -> int:
        """How fast the server's clock runs in the first minutes."""
        return max(self.speed, round(_KEPT_S / self.first_s))

    @property
    def clock_s(self) -> float:
        """How far the server's clock gets at most."""
        return self.first_speed * self.first_s + self.speed * self.seconds


@dataclass(slots=True)
class Soak:
    """What runs: the ids of its processes by name, what ended, and what users did."""

    pids: dict[str, int] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)
    troubles: users.Troubles = field(default_factory=users.Troubles)
    done: dict[str, int] = field(default_factory=dict)


def run(plan: Plan, say: Callable[[str], None]) -> None:
    """Run all of it for the time of the plan, and write the samples as they come; raises what keeps it from running."""
    plan.out.mkdir(parents=True, exist_ok=True)
    for name in ("state", "counts", "history"):
        (plan.out / name).mkdir()
    with (
        ClockedServer(
            start_us=time.time_ns() // 1000 - round((plan.clock_s + _BEHIND_S) * 1e6), speed=plan.speed
        ) as server,
        # On a busy machine the server may answer late; the run goes on.
        Redis.from_url(server.url, socket_timeout=SECONDS_MAX) as client,
        (plan.out / SAMPLES).open("x", buffering=1) as samples,
    ):
        if not server.is_clocked:
            raise OSError("the clock of the server cannot run fast without a C compiler, or on this system")
        with _everything(plan, server) as soak:
            say(f"{len(soak.pids)} processes run: {soak.pids}")
            server.run(plan.first_speed)
            slower = threading.Timer(plan.first_s, server.run, [plan.speed])
            slower.start()
            try:
                _sample(plan, soak, client, samples.write, say)
            finally:
                slower.cancel()
        samples.write(json.dumps({"done": soak.done, "troubles": soak.troubles.said}) + "\n")


@contextmanager
def _everything(plan: Plan, server: ClockedServer) -> Iterator[Soak]:
    soak = Soak()
    (plan.out / "config.toml").write_text(_configuration(server.url, plan.out / "alerts.jsonl"))
    given = _environment(plan.out)
    port = _free_port()
    with ExitStack() as stack:
        workload = stack.enter_context(WorkloadProcess(server.url, speed=plan.speed))
        assert workload.wait_ready(timeout_s=SECONDS_MAX)
        for name, arguments in {
            "recorder": ("record", "--out", str(plan.out / "history"), "--every", "1s", "--messages", "2m"),
            "exporter": ("exporter", "--port", str(port)),
            "watch": ("watch", "--json"),
        }.items():
            soak.pids[name] = stack.enter_context(_command(plan.out / f"{name}.log", arguments, given))
        wait_until(lambda: _listens(port), "the exporter answers")
        terminal = stack.enter_context(Terminal(settings=plan.out / "state", environment=given))
        soak.pids |= {"dashboard": terminal.process.pid, "server": server.pid, "workload": workload.pid}

        rest_s = min(2.0, plan.every_s / 10)
        jobs: dict[str, Callable[[], int]] = {
            "queues": lambda: users.come_and_go(server.url, plan.queues, soak.stop, rest_s / 4),
            "switches": lambda: users.switch_consumers(workload, soak.stop, soak.troubles, 10 * rest_s),
            "scrapes": lambda: users.scrape(f"http://127.0.0.1:{port}/metrics", soak.stop, soak.troubles, rest_s),
            "excursions": lambda: users.use_terminal(
                terminal, soak.stop, soak.troubles, users.Rests(plan.every_s, rest_s, plan.settled_s)
            ),
            "pages": lambda: asyncio.run(_pages(plan, given, soak, rest_s)),
        }
        threads = [threading.Thread(target=_do, args=(name, job, soak), name=name) for name, job in jobs.items()]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: "page" in soak.pids, "a page shows the queues")
            yield soak
        finally:
            soak.stop.set()
            for thread in threads:
                thread.join()


def _do(name: str, job: Callable[[], int], soak: Soak) -> None:
    try:
        soak.done[name] = job()
    except Exception as error:  # the run goes on, and its report says it
        soak.troubles.say(name, f"{type(error).__name__}: {error}")


async def _pages(plan: Plan, given: Mapping[str, str], soak: Soak, rest_s: float) -> int:
    async with serving("serve", "--port", "0", state=plan.out / "state", env=given) as at:
        soak.pids["serve"] = at.process.pid
        rests = users.Rests(plan.every_s, rest_s, plan.settled_s)
        return await users.use_pages(
            at, soak.stop, soak.troubles, rests, rest_s, lambda pid: soak.pids.update(page=pid)
        )


@contextmanager
def _command(log: Path, arguments: tuple[str, ...], given: Mapping[str, str]) -> Iterator[int]:
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [*PROGRAM, *arguments],
            env=environment(**given),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait()


def _sample(plan: Plan, soak: Soak, client: Redis, write: Callable[[str], object], say: Callable[[str], None]) -> None:
    began_s = time.monotonic()
    number = said = 0
    while time.monotonic() < began_s + plan.seconds:
        number += 1
        looks: list[dict[str, float]] = []
        types: dict[str, dict[str, int]] = {}
        for look in range(_LOOKS):
            due_s = began_s + plan.every_s * (number - 1 + (look + 1) / _LOOKS)
            time.sleep(max(0.0, due_s - time.monotonic()))
            looks.append(_look(plan, soak, client, types if look == _LOOKS - 1 else None))
        # The lowest: what a moment takes, as a connection or the body of a message, is no growth.
        names = sorted({name for each in looks for name in each})
        figures = {name: min(each[name] for each in looks if name in each) for name in names}
        sample = {"at_s": round(time.monotonic() - began_s, 1), "figures": figures, "types": types}
        write(json.dumps(sample) + "\n")
        say(f"sample {number}: " + ", ".join(f"{n} {int(figures.get(f'{n} rss_kb', 0)) >> 10} MB" for n in soak.pids))
        for trouble in soak.troubles.said[said:]:
            say(trouble)
        said = len(soak.troubles.said)


def _look(plan: Plan, soak: Soak, client: Redis, types: dict[str, dict[str, int]] | None) -> dict[str, float]:
    figures: dict[str, float] = {}
    pids = dict(soak.pids)
    for name, pid in list(pids.items()):
        try:
            figures |= {f"{name} {figure}": value for figure, value in looking.of_process(pid).items()}
        except (OSError, IndexError):
            soak.troubles.say(name, "has ended")
            del soak.pids[name], pids[name]
    for name, counts in looking.of_inside(pids, plan.out / "counts", whole=types is not None).items():
        if types is not None:
            types[name] = counts.pop("types")
        figures |= {f"{name} {figure}": value for figure, value in counts.items()}
    for name in pids:
        # How many the pool has begun is how busy it once was.
        if (pooled := figures.pop(f"{name} pool_threads", None)) is not None:
            figures[f"{name} threads"] -= pooled
    figures |= {f"server {figure}": value for figure, value in looking.of_server(client).items()}
    figures |= {f"state {name}": value for name, value in looking.of_folder(plan.out / "state" / "rsmq-tui").items()}
    figures |= {
        f"history {name}": value for name, value in looking.of_folder(plan.out / "history").items() if name == "files"
    }
    figures["history kb"] = sum(looking.of_folder(plan.out / "history").values()) - figures["history files"]
    return figures


def _environment(out: Path) -> dict[str, str]:
    state = str(out / "state")
    return {
        "HOME": state,
        "XDG_STATE_HOME": state,
        "XDG_CONFIG_HOME": state,
        "RSMQ_TUI_CONFIG": str(out / "config.toml"),
        **looking.prepared(out / "counts"),
    }


def _configuration(url: str, alerts: Path) -> str:
    """Return a configuration with rules whose alerts come and go."""
    return f"""
default = "soak"

[defaults]
interval = "500ms"

[profiles.soak]
url = {json.dumps(url)}
lists = {json.dumps(LISTS)}

[[alerts]]
when = "trouble"
repeat = "1m"
channels = ["file"]

[[alerts]]
queues = ["soak-*"]
when = "depth > 20"
channels = ["file"]

[channels.file]
command = ["/bin/sh", "-c", {json.dumps(f"cat >>'{alerts}'; echo >>'{alerts}'")}]
"""


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

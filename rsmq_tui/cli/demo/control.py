"""The controls of a demo: what its user can do to the server and to the clients of a queue, and undo."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from rsmq_tui.cli.demo.scenarios import DEMO_SCENARIOS, Consumer, Hands, ListScenario, Scenario
from rsmq_tui.cli.demo.server import EmbeddedError, EmbeddedServer, WorkloadProcess
from rsmq_tui.protocol import SERVER_ERRORS, connect, failure_of


@dataclass(frozen=True, slots=True)
class Control:
    """One control: its key turns it on, and off again.

    ``group`` is what it acts on: the server, the consumer or the producer of a queue, or its messages. ``expect`` says
    what will be seen.
    """

    name: str
    key: str
    group: str
    title: str
    expect: str


SERVER_CONTROLS = (
    Control(
        "server-slow", "1", "server", "slow",
        "The server stops for 0.1 s again and again: the round trip in the first line grows, and all rates fall.",
    ),
    Control(
        "server-pause", "2", "server", "paused",
        "The server accepts connections and does not answer: the numbers become stale. Nothing is lost.",
    ),
    Control(
        "server-cut", "3", "server", "cut off",
        "Every connection ends, and new ones are refused: the dashboard and the clients retry, after 1, 2, 4 … 10 s.",
    ),
    Control(
        "server-down", "4", "server", "shut down",
        "The server saves its data and ends. The same key starts it again: the log (L) shows it, and nothing is lost.",
    ),
    Control(
        "server-full", "5", "server", "memory full",
        "Its memory limit is reached: it refuses sends and receives, but not deletes. Queues stop; i shows why.",
    ),
)  # fmt: skip
CLIENT_CONTROLS = (
    Control(
        "consumer-stop", "s", "consumer", "stopped",
        "Nobody receives: ready messages grow at the rate of arrivals, and after 8 s the verdict is stalled.",
    ),
    Control(
        "consumer-slow", "w", "consumer", "slow",
        "It works at a fifth of its speed: arrivals exceed deletes, and after 20 s the verdict is growing.",
    ),
    Control("consumer-fast", "f", "consumer", "fast", "It works at five times its speed: a backlog drains sooner."),
    Control(
        "consumer-crash", "c", "consumer", "crashing",
        "It dies before it deletes its messages: they stay in flight until their timeout ends, and come back.",
    ),
    Control("producer-stop", "S", "producer", "stopped", "Nothing is sent: in/s falls to 0, and the queue drains."),
    Control("producer-slow", "W", "producer", "slow", "It sends at a fifth of its rate: a backlog drains sooner."),
    Control(
        "producer-fast", "F", "producer", "fast",
        "It sends five times as much: if the consumer cannot keep up, the verdict is growing after 20 s.",
    ),
    Control(
        "burst", "b", "messages", "burst of 1,000",
        "1,000 messages are sent at once: a peak in the chart. The same key deletes those that are still there.",
    ),
    Control(
        "poison", "p", "messages", "poison",
        "A message is sent that fails each time: it comes back after 2 s, and is poison from its fifth receive on.",
    ),
    Control(
        "delays", "d", "messages", "delayed",
        "Messages are sent with a delay of 20 to 60 s: they are hidden, and were never received (tab: delayed).",
    ),
    Control(
        "wrong-clock", "t", "messages", "wrong clock",
        "The sender's clock is an hour behind: on the queue, AGE is an hour for what was sent just now.",
    ),
    Control(
        "odd-dates", "o", "messages", "odd dates",
        "A client writes seconds, as rsmq_async 7 does: other clients can receive its messages but not delete them.",
    ),
)  # fmt: skip
_BY_NAME = {control.name: control for control in (*SERVER_CONTROLS, *CLIENT_CONTROLS)}
_OF_RSMQ_ONLY = {"poison", "delays", "odd-dates"}

# How long a slow server stops, and how long it works in between.
_STOPPED_S, _WORKING_S = 0.1, 0.1
# The limit is this share of the used memory, so that it stays exceeded while messages in flight are deleted.
_LIMIT_SHARE = 0.9
_TIMEOUT_S = 3.0


class DemoControls:
    """The controls of one demo, as long as the ``with`` block; ``server`` is None if it cannot be controlled.

    Its methods may be called from any thread; they wait for the server or the workload.
    """

    def __init__(self, server: EmbeddedServer | None, workload: WorkloadProcess, scenario: str) -> None:
        self._workload = workload
        self._scenarios = {each.queue: each for each in DEMO_SCENARIOS[scenario].queues}
        self._at_start = DEMO_SCENARIOS[scenario].controls
        self._on: dict[str, set[str]] = {
            each.queue: {"consumer-stop"} if _consumer_of(each) is None else set() for each in self._scenarios.values()
        }
        self._server = None if server is None else _ServerControls(server)
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def __enter__(self) -> "DemoControls":
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()

    @property
    def queues(self) -> Sequence[str]:
        """The names of the queues."""
        return tuple(self._scenarios)

    def of(self, queue: str) -> Sequence[Control]:
        """Return the controls of the server, and of a queue."""
        scenario = self._scenarios.get(queue)
        named = [control for control in CLIENT_CONTROLS if scenario is not None and _applies(control, scenario)]
        return (*(() if self._server is None else self._server.available), *named)

    def is_on(self, name: str, queue: str) -> bool:
        """Return whether a control is on."""
        if name.startswith("server-"):
            return self._server is not None and name in self._server.on
        return name in self._on.get(queue, ())

    def switch(self, name: str, queue: str) -> str:
        """Turn a control on, or off if it is on, and return what else was done; raises ``RuntimeError`` on failure."""
        with self._lock:
            on = not self.is_on(name, queue)
            if not name.startswith("server-"):
                return self._switch_client(name, queue, on)
            if self._server is not None:
                self._server.switch(name, on)
            return ""

    def begin(self, *, server_after_s: float = 3.0) -> None:
        """Turn on the controls of the scenario, those of the server a little later; raises ``RuntimeError``."""
        for name, queue in self._at_start:
            if name.startswith("server-"):
                # After the first numbers have been seen.
                self._timer = threading.Timer(server_after_s, self.switch, (name, queue))
                self._timer.daemon = True
                self._timer.start()
            else:
                self.switch(name, queue)

    def _switch_client(self, name: str, queue: str, on: bool) -> str:
        answer = self._workload.switch(name, queue, on)
        self._on = {each: set(names) for each, names in answer["on"].items()}
        if not answer["done"]:
            raise EmbeddedError(f"{_BY_NAME[name].title} of {queue}: {answer['said']}")
        said: str = answer["said"]
        return said


def _consumer_of(scenario: Scenario | ListScenario) -> Consumer | Hands | None:
    return scenario.worker if isinstance(scenario, ListScenario) else scenario.consumer


def _applies(control: Control, scenario: Scenario | ListScenario) -> bool:
    """Return whether a queue has the control: a popped item is gone anyway, whether its worker crashes or not."""
    if not isinstance(scenario, ListScenario):
        return True
    is_leased = scenario.worker is not None and scenario.worker.lease_ms is not None
    return control.name not in _OF_RSMQ_ONLY and (control.name != "consumer-crash" or is_leased)


class _ServerControls:
    """Controls of the server, by signals, by its Unix socket, or by ending it."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.on: set[str] = set()
        self._server = server
        self._actions: dict[str, Callable[[bool], None]] = {"server-full": self._fill}
        if sys.platform != "win32":
            self._actions |= {
                "server-slow": self._slow,
                "server-pause": self._pause,
                "server-cut": self._cut_off,
                "server-down": self._shut_down,
            }
        self._pulses: threading.Thread | None = None
        self._no_pulses = threading.Event()
        # Held while the process is stopped for a moment.
        self._stopping = threading.Lock()

    @property
    def available(self) -> Sequence[Control]:
        """The controls that this system supports."""
        return tuple(control for control in SERVER_CONTROLS if control.name in self._actions)

    def switch(self, name: str, on: bool) -> None:
        """Turn one on or off; raises ``EmbeddedError``."""
        if "server-down" in self.on and name != "server-down":
            raise EmbeddedError("The server is shut down: start it again first.")
        self._actions[name](on)
        # After a restart of the server, none of the other controls is on.
        self.on = {name} if on and name == "server-down" else (self.on | {name} if on else self.on - {name})

    def close(self) -> None:
        """Resume the server, so that it can be ended."""
        self._slow(False)
        if "server-pause" in self.on:
            self._pause(False)

    def _slow(self, on: bool) -> None:
        if on:
            self._no_pulses.clear()
            self._pulses = threading.Thread(target=self._pulse, name="demo-pulses", daemon=True)
            self._pulses.start()
        elif self._pulses is not None:
            self._no_pulses.set()
            self._pulses.join()
            self._pulses = None

    def _pulse(self) -> None:
        while not self._no_pulses.wait(_WORKING_S):
            with self._stopping:
                if "server-pause" not in self.on:
                    self._server.signal(signal.SIGSTOP)
                    self._no_pulses.wait(_STOPPED_S)
                    self._server.signal(signal.SIGCONT)

    def _pause(self, on: bool) -> None:
        with self._stopping:
            self._server.signal(signal.SIGSTOP if on else signal.SIGCONT)
            self.on = self.on | {"server-pause"} if on else self.on - {"server-pause"}

    def _cut_off(self, on: bool) -> None:
        with self._asking() as client:
            client.execute_command("CONFIG", "SET", "port", 0 if on else self._server.port)
            if on:
                for kind in ("normal", "pubsub"):
                    client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")

    def _fill(self, on: bool) -> None:
        with self._asking() as client:
            used = int(client.info("memory")["used_memory"])
            client.execute_command("CONFIG", "SET", "maxmemory-policy", "noeviction")
            client.execute_command("CONFIG", "SET", "maxmemory", int(used * _LIMIT_SHARE) if on else 0)

    def _shut_down(self, on: bool) -> None:
        if not on:
            self._server.start_again()
            return
        if "server-pause" in self.on:
            raise EmbeddedError("The server is paused: resume it first.")
        self._slow(False)
        self._server.shut_down()

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        url = self._server.url if sys.platform == "win32" else self._server.private_url
        try:
            with closing(connect(url, timeout_s=_TIMEOUT_S)) as client:
                yield client
        except SERVER_ERRORS as error:
            raise EmbeddedError(f"The server does not answer: {failure_of(error).sentence}.") from error

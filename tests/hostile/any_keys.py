"""Any keys, typed as fast as a terminal takes them, into the dashboard on a server with both kinds of hostile queues.

``python -m tests.hostile.any_keys --seed N --minutes M`` types those of one seed after the other.
"""

import argparse
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from tests.hostile.payloads import ALL_LINES, ESCAPES, MARKUP, SNIPPETS, UNREADABLE, fill, plant_message, plant_queue
from tests.hostile.terminal import COLUMNS, LINES, Terminal

# As some terminals send it: the program need not wait whether it begins a sequence.
_ESCAPE = "\x1b[27u"
# Neither q, which quits, nor a slash: in no form can they be the path of a file in another folder.
_CHARACTERS = "abcdefghijklmnoprstuvwxyzABCDEFGHIJKLMNOPRSTUVWXYZ0123456789?:|#[]+-=*.,<>@&' _"
_CONFIGURATION = '[keys]\nfilter = "&"\nfind = "&"\n'
_OTHERS = (
    *("\r", "\t", " ", "\x7f", "\x13", "\x19", "\x10", "\x15", "\x17"),
    *(f"\x1b[{key}" for key in ("A", "B", "C", "D", "H", "F", "Z", "1;2A", "1;2B", "3~", "5~", "6~")),
)
_WORDS = (
    *("orders", "&orders\r", "&rc>=1\r", "state:ready", "&body~x\r", "5", "10s", "#-5\r", "#12:30\r", "json.a", "b\r"),
    *(":theme\r", ":help\r", ":audit\r", "f*\r", "frc>=0\r", "xorders\r", "aqux\x13", "\r\r", "N1h\r"),
    f"\x1b[200~{UNREADABLE.decode('utf-8', 'replace')[:60]}\n\u202ex\x1b[201~",
)
_SIZES = ((COLUMNS, LINES), (80, 24), (40, 10), (20, 5))
_KEYS = 200


def plant(client: Redis) -> None:
    """Make queues of both kinds, with hostile names and bodies among them."""
    fill(client)
    for name in (b"jobs", ESCAPES, MARKUP, UNREADABLE):
        plant_queue(client, name)
        client.rpush(b"list:" + name, *SNIPPETS.values(), ALL_LINES)
        for number, body in enumerate((*SNIPPETS.values(), ALL_LINES)):
            plant_message(client, name, b"%02d" % number + body[:50], body, rc=number % 5)


def type_any_keys(url: str, seed: int, folder: Path, keys: int = _KEYS) -> None:
    """Type the keys of a seed; then the dashboard still shows its help and live numbers, and ends by ``q``.

    ``folder`` gets the files that it writes. The list of commands has the one that quits: that is an end too.
    """
    settings = folder / "rsmq-tui"
    settings.mkdir()
    (settings / "config.toml").write_text(_CONFIGURATION)
    environment = {"XDG_STATE_HOME": str(folder), "EDITOR": "true", "PAGER": "true"}
    options = ("-r", url, "--lists", "list:*", "--interval", "0.5")
    with Terminal(*options, settings=folder, folder=folder, environment=environment) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        for key, size, pause_s in _typed(Random(seed), keys):
            if terminal.process.poll() is None:
                terminal.type(key)
                if size is not None:
                    terminal.resize(*size)
                terminal.read_for(pause_s)
        if terminal.process.poll() is None:
            terminal.resize(COLUMNS, LINES)
            terminal.type(20 * _ESCAPE + "?")
            terminal.wait_for("─ Help ─")
            terminal.type(_ESCAPE)
            words = terminal.wait_until_gone("─ Help ─")
            assert re.search("● live|paused| ago", words), words
            terminal.type("q")
        assert terminal.wait_for_end() == 0, terminal.screen.text
        assert terminal.screen.is_restored
        assert terminal.is_as_before


def _typed(random: Random, keys: int) -> Iterator[tuple[str, tuple[int, int] | None, float]]:
    """Yield each key, the size that the terminal has after it if it changes, and how long to wait until the next."""
    for _ in range(keys):
        kind = random.random()
        if kind < 0.55:
            key = random.choice(_CHARACTERS)
        elif kind < 0.75:
            key = random.choice(_OTHERS)
        elif kind < 0.85:
            key = _ESCAPE
        elif kind < 0.93:
            key = random.choice(_WORDS)
        else:
            button, x, y = random.choice((0, 0, 64, 65, 35)), random.randint(1, COLUMNS), random.randint(1, LINES)
            key = f"\x1b[<{button};{x};{y}M" + f"\x1b[<{button};{x};{y}m" * (button == 0)
        size = random.choice(_SIZES) if random.random() < 0.02 else None
        yield key, size, random.choice((0.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.02))


def main() -> None:
    """Type the keys of one seed after the other; the first that fails is the last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long")
    parser.add_argument("--keys", type=int, default=_KEYS, help="how many of each seed")
    asked = parser.parse_args()
    seed, ends_s = asked.seed, time.monotonic() + 60 * asked.minutes
    while time.monotonic() < ends_s:
        print(f"--seed {seed} --keys {asked.keys}", flush=True)
        with tempfile.TemporaryDirectory() as folder, EmbeddedServer() as server:
            with Redis.from_url(server.url) as client:
                plant(client)
            type_any_keys(server.url, seed, Path(folder), asked.keys)
        seed += 1


if __name__ == "__main__":
    main()

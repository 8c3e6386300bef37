"""What a command of `rsmqctl` did, in values that are equal from run to run: what it printed, what all keys hold."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from redis import Redis

from rsmq_tui.protocol.keys import name_bytes, name_of
from tests.protocol.keyspace import now_ms

_USAGE = 2
_NEAR_MS = 200 * 86_400_000
_STEP_S = 300
_NEW_ID = re.compile(r"(?<![a-zA-Z0-9:])[a-zA-Z0-9]{32}(?![a-zA-Z0-9:])")


class Observed(NamedTuple):
    """How a command ended: its exit status, what it printed, and what all keys hold after it.

    Ids that the command made are ``<id>``, times of now ``<s>`` and ``<ms>``. Of a help only the first line is
    compared, and of a wrong value only the option, because the reasons differ in words. A traceback stands for its
    text, and so does a usage error that the original does not have, as ``<usage>``. A score near the time of the
    command is in seconds from it, to five minutes, as ``+600 s``.
    """

    status: int
    out: str
    err: str
    keys: dict[str, Any]


def written_out(text: str) -> str:
    """Return the text that is meant: ``<1025 x>`` stands for so many."""
    return re.sub(r"<(\d+) x>", lambda found: "x" * int(found[1]), text)


def lay(client: Redis, commands: Iterable[Sequence[str]]) -> None:
    """Put there what a case begins with: an empty database, and what these commands write."""
    client.flushdb()
    for command in commands:
        client.execute_command(*(name_bytes(written_out(word)) for word in command))


def observed(client: Redis, status: int, out: str, err: str, known: str, url: str) -> Observed:
    """Return what there is to compare; ids in ``known`` were there before."""
    at_ms = now_ms(client)
    is_ours = status == _USAGE and not err.startswith(("Usage: ", "Error: "))
    err = "<usage>" if is_ours else _printed(err, known, at_ms, url)
    return Observed(status, _printed(out, known, at_ms, url), err, _keys(client, known, at_ms))


def _printed(text: str, known: str, at_ms: int, url: str) -> str:
    if re.match(r"Usage: .*\n\n", text):
        return text.splitlines()[0] + "\n<help>"
    # What was meant is looked for among the options, of which ours are more.
    text = re.sub(r" \(?Did you mean .*\n", " <meant>\n", text)
    text = re.sub(r"(Error: Invalid value for [^:]+: ).*\n", r"\1<why>\n", text)
    if text.startswith("Traceback "):
        return f"<traceback: {text.splitlines()[-1].split(':')[0].split('.')[-1]}>"
    # Where in the program an error came up, as -v prints it.
    text = re.sub(r"(?m)^\w+ at:\n(?:  .*\n)+", "<places>\n", text)
    text = re.sub(r"(?:<places>\n)+", "<places>\n", text)
    text = _masked(text, known, at_ms).replace(url, "<url>")
    return text.replace(server_of(url), "<server>")


def server_of(url: str) -> str:
    """Return a URL without its database."""
    return re.sub(r"(//[^/]*)/.*", r"\1", url)


def _masked(text: str, known: str, at_ms: int) -> str:
    text = re.sub(r"x{300,}", lambda found: f"<{len(found[0])} x>", text)
    text = _NEW_ID.sub(lambda found: found[0] if found[0] in known else "<id>", text)
    for name, now, digits in (("<ms>", at_ms, 13), ("<s>", at_ms // 1000, 10)):
        slack = _NEAR_MS if digits == 13 else _NEAR_MS // 1000

        def near(found: re.Match[str], name: str = name, now: int = now, slack: int = slack) -> str:
            return name if abs(int(found[0]) - now) < slack else found[0]

        text = re.sub(rf"(?<!\d)\d{{{digits}}}(?!\d)", near, text)
    return text


def _keys(client: Redis, known: str, at_ms: int) -> dict[str, Any]:
    def masked(raw: bytes) -> str:
        return _masked(name_of(raw), known, at_ms)

    found: dict[str, Any] = {}
    for key in sorted(client.scan_iter()):
        match client.type(key):
            case b"hash":
                found[masked(key)] = dict(sorted((masked(name), masked(v)) for name, v in client.hgetall(key).items()))
            case b"zset":
                members = client.zrange(key, 0, -1, withscores=True)
                found[masked(key)] = sorted([masked(id), _due(score, at_ms)] for id, score in members)
            case b"set":
                found[masked(key)] = sorted(map(masked, client.smembers(key)))
            case _:
                found[masked(key)] = masked(client.get(key))
    return found


def _due(score: float, at_ms: int) -> str:
    if abs(score - at_ms) > _NEAR_MS:
        return f"{score:.17g}"
    return f"{round((score - at_ms) / 1000 / _STEP_S) * _STEP_S:+d} s"


def as_json(observed: Observed) -> dict[str, Any]:
    """Return it as JSON holds it."""
    fields: dict[str, Any] = json.loads(json.dumps(observed._asdict()))
    return fields

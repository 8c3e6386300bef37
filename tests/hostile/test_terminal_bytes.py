"""What really goes to the terminal: nothing of the data is a command there, on any screen."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from redis import Redis

from tests.hostile.keyspace import untouched
from tests.hostile.payloads import ALL_LINES, JSON, SNIPPETS, plant_message, plant_queue
from tests.hostile.terminal import Terminal
from tests.hostile.watching import assert_only_words

pytestmark = pytest.mark.slow

# What Textual sends of its own: cursor, colours, modes and questions, and the clipboard where something is copied.
OWN_COMMANDS = {"CSI H", "CSI m", "CSI h", "CSI l", "CSI J", "CSI p", "CSI u", "CSI t", "CSI n", "OSC 52", "OSC 22"}
NAME = SNIPPETS["osc-title"] + SNIPPETS["markup-action"]
# Keys, and what is on the screen after them, or not any more.
STEPS = (
    # The pane shows messages with the same text as names: it is closed once it has been shown.
    ("||", "!─ First "),
    ("?", "─ Help ─"),
    ("\x1b", "!─ Help ─"),
    (":", "or the name of a queue"),
    ("pwned-title", "␛]0;PWNED-title␇", "!Switch to the next theme"),
    ("\x1b", "!─ Commands ─"),
    ("/", "words in a queue's name"),
    ("title", "!␛]8;;http"),
    # What answers shows that the filter has been left.
    ("\r\x10", "or the name of a queue"),
    ("\x1b", "DRAINS IN", "!or the name of a queue"),
    ("\r", "◀ ␛]0;PWNED-title␇[@click=app.quit]x[/]", r"\u202egnp.exe", "[/foo]"),
    ("I", "copied the id"),
    ("gy", "copied the body"),
    ("\r", "[hex]", "00000000"),
    ("h", "[raw]", "␛]52;c;UFdORUQ=␇"),
    ("Gy", "copied the body"),
    ("\x1b", "BODY"),
    ("j\r", "[pretty]", r"\u001b]0;PWNED-title"),
    ("l", "[raw]"),
    ("l", "[hex]"),
    ("t", "[hex]"),
    ("T", "[hex]"),
    ("\x1b", "BODY"),
    ("l", "[ ready "),
    ("l", "[ in flight ", "There are no in flight messages"),
    ("l", "[ delayed ", "There are no delayed messages"),
    ("l", "[ poison ", "There are no poison messages"),
    ("l", "[ all ", "[/foo]"),
    ('/body:"[/foo]"\r', "filter: body:", " matches · "),
    ("/]0;PWNED\r", "separate terms with a space"),
    ("\x1b", " matches · ", "!a space must come"),
    ("\x1b", "[ all ", "! matches · "),
    (" v*", " marked"),
    ("A", "all 32 in the queue"),
    ("\x1b", "! in the queue", "BODY"),
    ("b", "enter counts"),
    ("\r", "enter filters by a group"),
    ("\x1b", "BODY", "!enter filters by a group"),
    ("x", "Invalid qname", "Close"),
    ("\x1b", "BODY", "!Invalid qname"),
    ("M", "to queue", "Preview"),
    ("nowhere\r", "Invalid qname", "Close"),
    ("\x1b", "to queue", "!Close"),
    ("\x1b", "BODY", "!to queue"),
    ("e", "or a file", "[/foo]"),
    ("\x1b", "BODY", "!or a file"),
    ("a", "or a file", "Preview"),
    ("[/foo]", "[/foo]"),
    ("\x1b", "Press esc again"),
    ("\x1b", "BODY", "!or a file"),
    ("=", "maxsize"),
    ("\x1b", "BODY", "!maxsize"),
    ("P", "Invalid qname", "Close"),
    ("\x1b", "BODY", "!Invalid qname"),
    ("\x1b", "DRAINS IN"),
)


def test_no_screen_sends_the_terminal_anything_of_the_data(client: Redis, redis_url: str, tmp_path: Path) -> None:
    for name in (NAME, *SNIPPETS.values()):
        plant_queue(client, name, delay=name, totalsent=name)
    for number, snippet in enumerate((ALL_LINES, JSON, *SNIPPETS.values())):
        plant_message(client, NAME, b"%02d" % number + snippet[:200], snippet, fr=snippet)

    with untouched(client), Terminal("-r", redis_url, settings=tmp_path) as terminal:
        terminal.wait_for("● live", "␛]0;PWNED-title␇", "[@click=app.quit]x[/]")
        take_steps(terminal, STEPS)
        terminal.type("\x03")
        assert terminal.wait_for_end() == 0

    assert_nothing_of_the_data_was_sent(terminal)


# On a list's screen: any key can be the name of a list, and its own dialogs ask for other things.
LIST_STEPS = (
    ("/", "words in a queue's name"),
    ("title click", "!jobs:␛]8;;http"),
    ("\r\x10", "or the name of a queue"),
    ("\x1b", "DRAINS IN", "!or the name of a queue"),
    ("?", "─ Help ─"),
    ("\x1b", "!─ Help ─"),
    ("\r", "◀ jobs:␛]0;PWNED-title␇", r"\u202egnp.exe", "[/foo]"),
    ("I", "copied the id"),
    ("y", "copied the body"),
    ("P", "also items in processing", "Preview"),
    ("\t\t\r", "type the queue's name: jobs:␛]0;PWNED-title␇", "Purge"),
    ("\x1b", "also items in processing", "!type the queue's name"),
    ("\x1b", "BODY", "!also items in processing"),
    ("x", "Delete 1", "from"),
    ("\x1b", "BODY", "!Delete 1"),
    ("M", "to queue", "Preview"),
    ("\x1b[B", "jobs:"),
    ("\x1b", "BODY", "!to queue"),
    ("=", "how many items"),
    ("2\r", "kept in the journal"),
    ("\x1b", "keep the oldest", "!kept in the journal"),
    ("\x1b", "BODY", "!keep the oldest"),
    ("E", "file", ".jsonl"),
    ("\x1b", "BODY", "!.jsonl"),
    ("b", "enter counts"),
    ("\x1b", "BODY", "!─ Group "),
    ("F", "audit of jobs:␛]0;PWNED-title␇"),
    ("\x1b", "BODY", "!audit of "),
    ("\r", "[raw]", "␛[2J"),
    ("l", "[hex]", "00000000"),
    ("\x1b", "BODY", "![hex]"),
    ("\x1b", "DRAINS IN"),
)


def test_no_screen_of_lists_sends_the_terminal_anything_of_the_data(
    client: Redis, redis_url: str, tmp_path: Path
) -> None:
    for snippet in SNIPPETS.values():
        client.lpush(b"jobs:" + snippet, snippet)
    client.lpush(b"jobs:" + NAME, *[snippet for snippet in SNIPPETS.values() if snippet], JSON)

    with untouched(client), Terminal("-r", redis_url, "--lists", "jobs:*", settings=tmp_path) as terminal:
        terminal.wait_for("● live", "jobs:␛]0;PWNED-title␇")
        take_steps(terminal, LIST_STEPS)
        terminal.type("\x03")
        assert terminal.wait_for_end() == 0
    assert_nothing_of_the_data_was_sent(terminal)


def take_steps(terminal: Terminal, steps: Sequence[tuple[str, ...]]) -> None:
    """Type keys, and wait for what is to be on the screen after them, or not any more."""
    for keys, *words in steps:
        terminal.type(keys)
        for word in words:
            if word.startswith("!"):
                terminal.wait_until_gone(word[1:])
            else:
                terminal.wait_for(word)


def assert_nothing_of_the_data_was_sent(terminal: Terminal) -> None:
    """All that was sent are words and Textual's own commands."""
    screen = terminal.screen
    assert screen.commands <= OWN_COMMANDS
    assert_only_words("".join(screen.written).replace("\r", "").replace("\n", ""))
    # One by one, lest the emulator misread something: none of the attacks went out as it was.
    attacks = [snippet for snippet in SNIPPETS.values() if b"\x1b" in snippet or b"\x9b" in snippet]
    assert attacks
    for attack in attacks:
        assert attack not in terminal.output
    assert b"\x1b]0;" not in terminal.output
    assert b"\x1b]8;" not in terminal.output
    assert b"UFdORUQ=\x07" not in terminal.output

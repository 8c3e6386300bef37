"""What really goes to the terminal: nothing of the data is a command there, on any screen."""

from pathlib import Path

from redis import Redis

from tests.hostile.keyspace import untouched
from tests.hostile.payloads import ALL_LINES, JSON, SNIPPETS, plant_message, plant_queue
from tests.hostile.terminal import Terminal
from tests.hostile.watching import assert_only_words

# What Textual sends of its own: cursor, colours, modes and questions, and the clipboard where something is copied.
OWN_COMMANDS = {"CSI H", "CSI m", "CSI h", "CSI l", "CSI J", "CSI p", "CSI u", "CSI t", "CSI n", "OSC 52", "OSC 22"}
NAME = SNIPPETS["osc-title"] + SNIPPETS["markup-action"]
# Keys, and what is on the screen after them, or not any more.
STEPS = (
    ("?", "─ Help ─"),
    ("\x1b", "!─ Help ─"),
    (":", "Search for commands"),
    ("queue pwned", "queue ␛]0;PWNED-title␇"),
    ("\x1b", "!queue ␛]0;PWNED-title␇"),
    ("/", "words in a queue's name"),
    ("title", "!␛]8;;http"),
    # What answers shows that the filter has been left.
    ("\r\x10", "Search for commands"),
    ("\x1b", "CLEARS", "!Search for commands"),
    ("\r", "◀ ␛]0;PWNED-title␇[@click=app.quit]x[/]", r"\u202egnp.exe", "[/foo]"),
    ("Y", "copied the id"),
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
    ('/body:"[/foo]"\r', "filter: body:", " match · as of "),
    ("/]0;PWNED\r", "a space must come between two terms"),
    ("\x1b", " match · as of ", "!a space must come"),
    ("\x1b", "[ all ", "! match · "),
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
    ("\x1b", "esc once more"),
    ("\x1b", "BODY", "!or a file"),
    ("=", "maxsize"),
    ("\x1b", "BODY", "!maxsize"),
    ("P", "Invalid qname", "Close"),
    ("\x1b", "BODY", "!Invalid qname"),
    ("\x1b", "CLEARS"),
)


def test_no_screen_sends_the_terminal_anything_of_the_data(client: Redis, redis_url: str, tmp_path: Path) -> None:
    for name in (NAME, *SNIPPETS.values()):
        plant_queue(client, name, delay=name, totalsent=name)
    for number, snippet in enumerate((ALL_LINES, JSON, *SNIPPETS.values())):
        plant_message(client, NAME, b"%02d" % number + snippet[:200], snippet, fr=snippet)

    with untouched(client), Terminal("-r", redis_url, settings=tmp_path) as terminal:
        terminal.wait_for("● live", "␛]0;PWNED-title␇", "[@click=app.quit]x[/]")
        for keys, *words in STEPS:
            terminal.type(keys)
            for word in words:
                if word.startswith("!"):
                    terminal.wait_until_gone(word[1:])
                else:
                    terminal.wait_for(word)
        terminal.type("\x03")
        assert terminal.wait_for_end() == 0

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

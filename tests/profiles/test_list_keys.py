"""What a profile says of list queues, and what is told of everything else."""

from pathlib import Path

import pytest

from rsmq_tui.protocol.lists.naming import ListNames
from tests.profiles.test_config import read, refusal


def test_lists_are_names_patterns_and_how_their_keys_are_named(tmp_path: Path) -> None:
    text = (
        '[defaults]\nlists = ["queue:*"]\nlists_processing = "{queue}:busy"\n'
        '[profiles.a]\nhost = "a"\n'
        '[profiles.b]\nhost = "b"\nlists = ["x", "y", "x"]\nlists_leases = "lease:{queue}"\nlists_take = "left"\n'
        'lists_age = "meta.at"\n[profiles.c]\nhost = "c"\nlists = []\n'
    )
    config = read(tmp_path, text)
    a, b, c = config.profiles.values()

    assert (config.watched.lists, a.lists, a.list_age) == (("queue:*",), ("queue:*",), None)
    assert a.list_names == ListNames(processing="{queue}:busy")
    assert (b.lists, b.list_age) == (("x", "y"), "meta.at")
    assert b.list_names == ListNames(processing="{queue}:busy", leases="lease:{queue}", take_from="left")
    assert c.lists == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('lists = "queue:*"', 'lists must be a list of keys and patterns of keys such as ["queue:*", "mail"]'),
        ('lists = ["a", ""]', 'lists must be a list of keys and patterns of keys such as ["queue:*", "mail"]'),
        ('lists = ["a\\u0000"]', 'lists must be a list of keys and patterns of keys such as ["queue:*", "mail"]'),
        (
            'lists_processing = "busy"',
            "lists_processing must be a key that contains {queue} once, "
            'which stands for the key of the queue: "{queue}:processing"'
            "; or {name}, which stands for the part that matches the * of a pattern",
        ),
        (
            'lists_leases = "{queue}{queue}"',
            "lists_leases must be a key that contains {queue} once, "
            'which stands for the key of the queue: "{queue}:leases"; or '
            "{name}, which stands for the part that matches the * of a pattern",
        ),
        (
            'lists_leases = "{queue}:processing"',
            "lists_leases is not valid: a queue, its processing list and its leases must have three different keys",
        ),
        ('lists_take = "rihgt"', "lists_take must be one of right, left; did you mean right?"),
        (
            'lists_age = "a b"',
            "lists_age must be a JSON path in an item, such as created or meta.at",
        ),
        ("lists_age = 5", "lists_age must be a string in quotes, not empty"),
        ('list = ["a"]', "unknown key list in [profiles.a]; did you mean lists?"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, text: str, sentence: str) -> None:
    assert refusal(tmp_path, f'[profiles.a]\nhost = "a"\n{text}\n') == f"3: {sentence}"

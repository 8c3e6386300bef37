"""What a program that runs for long says of the queues that it reads."""

from dataclasses import replace

import pytest

from rsmq_tui.cli.places import places_of, words_of
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import Address

EU, US = (Profile(name, Address(f"redis://{name}.example")) for name in ("eu", "us"))
MANY = tuple(f"ns{number}" for number in range(30))


@pytest.mark.parametrize(
    ("profiles", "words"),
    [
        ([Profile("", Address("redis://host"))], "namespace rsmq on redis://host:6379/0"),
        ([replace(EU, lists=("queue:*", "mail"))], "namespace rsmq and lists queue:*, mail on eu"),
        (
            [replace(EU, namespaces=("jobs", "mails")), US],
            "namespace jobs and namespace mails on eu, namespace rsmq on us",
        ),
        ([replace(EU, namespaces=MANY), US], "31 namespaces on 2 servers"),
        ([replace(EU, namespaces=MANY, lists=("*",))], "30 namespaces and lists on 1 server"),
    ],
)
def test_the_queues_that_are_read_are_named(profiles: list[Profile], words: str) -> None:
    assert words_of([place for profile in profiles for place in places_of(profile)]) == words

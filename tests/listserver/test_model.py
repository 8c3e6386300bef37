"""Random commands of ten clients, on this server and on Valkey side by side: the same replies in the same order."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from tests.listserver.peers import Side, Word

CLIENTS = 10
KEYS = [b"a", b"b", b"c", b"text"]
keys = st.sampled_from(KEYS)
sides = st.sampled_from([b"LEFT", b"RIGHT", b"left", b"UP"])
# Few elements, so that some are equal.
elements = st.sampled_from([b"x", b"y", b"z", b"", b"10", b"\xff\r\n"])
numbers = st.one_of(st.integers(-4, 5), st.sampled_from([b"", b"one", b"1.5", b"+1", b"01", 2**63, -(2**63)]))
# Valkey 9.1 takes the least integer as the position of the first element, where the documentation has an error.
positions = numbers.filter(lambda number: number != -(2**63))
some = st.lists(elements, min_size=1, max_size=3)
many_keys = st.lists(keys, min_size=1, max_size=3)
# Nobody's time is over during a test, so that no clock decides.
timeouts = st.sampled_from([0, 1000, b"1e3", b"0x400", -1, b"x", b"nan", b"1e300", b"1 "])


def _words(*parts: "st.SearchStrategy[Any] | Word") -> "st.SearchStrategy[list[Word]]":
    flat = st.tuples(*(part if isinstance(part, st.SearchStrategy) else st.just(part) for part in parts))
    return flat.map(lambda found: [word for part in found for word in (part if isinstance(part, list) else [part])])


def _counted(found: list[bytes]) -> list[Word]:
    return [len(found), *found]


COMMANDS = st.one_of(
    _words(st.sampled_from(["LPUSH", "RPUSH", "LPUSHX", "RPUSHX"]), keys, some),
    _words(st.sampled_from(["LPUSH", "RPUSH"]), st.sampled_from(KEYS[:3]), some),
    _words(st.sampled_from(["LPOP", "RPOP"]), keys, st.lists(numbers, max_size=2)),
    _words(st.sampled_from(["BLPOP", "BRPOP"]), many_keys, timeouts),
    _words(st.sampled_from(["BLPOP", "BRPOP"]), many_keys, 0),
    _words("LMOVE", keys, keys, sides, sides),
    _words("BLMOVE", keys, keys, sides, sides, timeouts),
    _words("BLMOVE", keys, keys, "LEFT", "RIGHT", 0),
    _words("RPOPLPUSH", keys, keys),
    _words("BRPOPLPUSH", keys, keys, timeouts),
    _words("LMPOP", many_keys.map(_counted), sides, st.sampled_from([[], ["COUNT", 2], ["COUNT", 0], ["COUNT"]])),
    _words("LMPOP", numbers, many_keys, sides),
    _words("BLMPOP", timeouts, many_keys.map(_counted), sides, st.sampled_from([[], ["COUNT", 2], ["count", 9]])),
    _words("LLEN", keys),
    _words("LRANGE", keys, numbers, numbers),
    _words("LINDEX", keys, positions),
    _words("LSET", keys, positions, elements),
    _words("LINSERT", keys, st.sampled_from(["BEFORE", "AFTER", "NEXT"]), elements, elements),
    _words("LREM", keys, numbers, elements),
    _words("LTRIM", keys, numbers, numbers),
    _words(
        "LPOS",
        keys,
        elements,
        st.lists(st.tuples(st.sampled_from(["RANK", "COUNT", "MAXLEN", "X"]), numbers).map(list), max_size=3).map(
            lambda pairs: [word for pair in pairs for word in pair]
        ),
    ),
    _words("SET", st.sampled_from([b"text", b"a"]), elements),
    _words("DEL", many_keys),
    _words("EXISTS", many_keys),
    _words("TYPE", keys),
    _words(st.sampled_from(["RENAME", "RENAMENX"]), keys, keys),
    _words(st.sampled_from(["MULTI", "EXEC", "EXEC", "DISCARD", "UNWATCH"])),
    _words("WATCH", many_keys),
    _words("SELECT", st.sampled_from([0, 0, 1, 99, b"x"])),
    _words("SWAPDB", st.sampled_from([0, 1]), st.sampled_from([0, 1])),
    _words(st.sampled_from(["FLUSHDB", "DBSIZE"])),
    _words(
        st.sampled_from(["lpush", "LPOP", "BLPOP", "LMPOP", "NIX", "CLIENT", "LINDEX", "RPOPLPUSH"]),
        st.lists(keys, max_size=1),
    ),
)


class TwoServers(RuleBasedStateMachine):
    """Each command goes to both servers, and all replies are compared."""

    ports: tuple[int, int]

    def __init__(self) -> None:
        super().__init__()
        self.ours, self.valkey = (Side(port, CLIENTS) for port in self.ports)

    def _free(self) -> list[int]:
        return [number for number in range(CLIENTS) if number not in self.ours.waiting]

    @precondition(lambda self: self._free())
    @rule(data=st.data(), words=COMMANDS)
    def call(self, data: st.DataObject, words: list[Word]) -> None:
        number = data.draw(st.sampled_from(self._free()))
        assert self.ours.call(number, words) == self.valkey.call(number, words)
        assert self.ours.waiting == self.valkey.waiting

    @precondition(lambda self: self.ours.waiting)
    @rule(data=st.data(), reason=st.sampled_from(["TIMEOUT", "ERROR"]))
    def unblock(self, data: st.DataObject, reason: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.ours.waiting)))
        for side in (self.ours, self.valkey):
            assert side.admin.call("CLIENT", "UNBLOCK", side.ids[number], reason) == 1
        assert self.ours.answered() == self.valkey.answered()

    def teardown(self) -> None:
        for side in (self.ours, self.valkey):
            side.close()


def compare(ours: int, valkey: int, *, examples: int, steps: int, derandomize: bool = True) -> None:
    """Compare two servers by their ports."""
    machine = type("Machine", (TwoServers,), {"ports": (ours, valkey)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=derandomize,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.slow
def test_random_commands_of_ten_clients_are_answered_as_by_valkey(server: EmbeddedServer) -> None:
    with ListServer() as ours:
        compare(ours.port, server.port, examples=15, steps=50)

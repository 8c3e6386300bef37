"""The sessions that the written protocol and the original's README print, replayed command by command.

`$ rsmqctl` lines run here, `>` lines ask the server as redis-cli would. Ids that a session names lie there before it
begins; those that come about in it are compared with ids and times masked.
"""

import shlex

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.cli.rsmqctl.conftest import Ctl
from tests.protocol.keyspace import NEW_ATTRIBUTES, masked, plant, printed

FIRST_ID, POPPED_ID = "g6hste7p6xVioNo5Hz3OgAHsobrtEVeY", "g6ht1jwe62tRYBzBVcKIf6H8jVCyPkOy"
CHANGED_ID = "g7aoitedg36TbsB8eP2yPY8XgaLwfKN3"

NO_QUEUES = """\
> SMEMBERS rsmq:QUEUES
(empty array)
$ rsmqctl queue list
[]
"""

ATTRIBUTES = f"""\
> HGETALL rsmq:test-queue:Q
{NEW_ATTRIBUTES}"""

A_QUEUE = f"""\
$ rsmqctl queue create -n test-queue
$ rsmqctl queue list
["test-queue"]
> SMEMBERS rsmq:QUEUES
1) "test-queue"
{ATTRIBUTES}"""

SENT = f"""\
$ rsmqctl message send -n test-queue -m "Hello, World"
g73zkl38qzSBNq2NcnVVlCldqwqFXRJd
> ZRANGE rsmq:test-queue 0 -1
1) "g73zkl38qzSBNq2NcnVVlCldqwqFXRJd"
{ATTRIBUTES}11) "g73zkl38qzSBNq2NcnVVlCldqwqFXRJd"
12) "Hello, World"
13) "totalsent"
14) "1"
"""

RECEIVED = f"""\
$ rsmqctl message receive -n test-queue
{{"id": "g73zkl38qzSBNq2NcnVVlCldqwqFXRJd", "message": "Hello, World", "rc": 1, "ts": 1645021703008}}
{ATTRIBUTES}11) "g73zkl38qzSBNq2NcnVVlCldqwqFXRJd"
12) "Hello, World"
13) "totalsent"
14) "1"
15) "totalrecv"
16) "1"
17) "g73zkl38qzSBNq2NcnVVlCldqwqFXRJd:rc"
18) "1"
19) "g73zkl38qzSBNq2NcnVVlCldqwqFXRJd:fr"
20) "1645021703008"
"""

CHANGED = f"""\
$ rsmqctl message visibility -n test-queue -i {CHANGED_ID} -t 600
Message ID: {CHANGED_ID} visibility timeout set to 600s
"""

README_QUEUES = """\
$ rsmqctl queue create -n test-queue
$ rsmqctl queue delete -n test-queue
$ rsmqctl queue create -n test-queue
$ rsmqctl queue create -n another-queue
$ rsmqctl queue list
["another-queue", "test-queue"]
$ rsmqctl queue describe -n test-queue
{"vt": 30.0, "delay": 0.0, "maxsize": 65535, "totalrecv": 0, "totalsent": 0, "created": 1643280027, \
"modified": 1643280027, "msgs": 0, "hiddenmsgs": 0}
"""

README_MESSAGES = f"""\
$ rsmqctl message receive -n test-queue
{{"id": "{FIRST_ID}", "message": "Hello, World", "rc": 1, "ts": 1643280991915}}
$ rsmqctl message delete -n test-queue -i {FIRST_ID}
$ rsmqctl message pop -n test-queue
{{"id": "{POPPED_ID}", "message": "Hello, World", "rc": 1, "ts": 1643281386411}}
$ rsmqctl message pop -n test-queue
No messages on queue: test-queue
"""


def replay(transcript: str, ctl: Ctl, client: Redis, *, masking: bool = True) -> None:
    """Run each command and compare what it prints with the transcript, all of it."""
    steps: list[tuple[str, list[str]]] = []
    for line in transcript.splitlines():
        if line.startswith(("$ ", "> ")):
            steps.append((line, []))
        else:
            steps[-1][1].append(line)
    mask = masked if masking else lambda text: text
    for line, expected in steps:
        words = shlex.split(line[2:])
        if line.startswith("$"):
            done = ctl(*words[1:])
            assert (done.status, done.err) == (0, ""), line
            shown = done.out
        else:
            shown = printed(client.execute_command(*words)) + "\n"
        assert mask(shown) == mask("".join(f"{text}\n" for text in expected)), line


def test_no_queues_then_one_then_a_message_that_is_received(ctl: Ctl, client: Redis) -> None:
    for transcript in (NO_QUEUES, A_QUEUE, SENT, RECEIVED):
        replay(transcript, ctl, client)
    (score,) = [score for _, score in client.zrange("rsmq:test-queue", 0, -1, withscores=True)]
    fields = client.hgetall("rsmq:test-queue:Q")
    (first,) = [value for name, value in fields.items() if name.endswith(b":fr")]
    assert score - int(first) == 30_000


def test_a_changed_visibility(ctl: Ctl, client: Redis, rsmq: Rsmq) -> None:
    rsmq.create_queue("test-queue")
    plant(client, "test-queue", CHANGED_ID, due_ms=1645544346419, body="Hello, World", rc=1, fr=1645544316419)
    before = client.time()[0] * 1000

    replay(CHANGED, ctl, client, masking=False)

    assert 600_000 <= client.zscore("rsmq:test-queue", CHANGED_ID) - before <= 660_000
    assert client.hget("rsmq:test-queue:Q", f"{CHANGED_ID}:rc") == b"1"


def test_a_deleted_message_leaves_nothing(ctl: Ctl, client: Redis) -> None:
    for transcript in (A_QUEUE, SENT, RECEIVED):
        replay(transcript, ctl, client)
    (id,) = client.zrange("rsmq:test-queue", 0, -1)

    assert ctl("message", "delete", "-n", "test-queue", "-i", id.decode()).status == 0

    assert client.exists("rsmq:test-queue") == 0
    assert not [name for name in client.hkeys("rsmq:test-queue:Q") if name.startswith(id)]


def test_the_readme_of_the_original_on_queues(ctl: Ctl, client: Redis) -> None:
    replay(README_QUEUES, ctl, client)


def test_the_readme_of_the_original_on_messages(ctl: Ctl, client: Redis, rsmq: Rsmq) -> None:
    rsmq.create_queue("test-queue")
    for due_ms, id in enumerate((FIRST_ID, POPPED_ID), 1_643_280_991_000):
        plant(client, "test-queue", id, due_ms=due_ms, body="Hello, World")

    replay(README_MESSAGES, ctl, client)


@pytest.mark.parametrize("by", ["-r", "--redis-url", "env", "behind"])
def test_where_the_server_is(
    by: str, anywhere: Ctl, redis_url: str, rsmq: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    rsmq.create_queue("test-queue")
    if by == "env":
        monkeypatch.setenv("REDIS_URL", redis_url)
        done = anywhere("queue", "list")
    else:
        monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
        server = ["-r" if by == "behind" else by, redis_url]
        done = anywhere(*(["queue", "list", *server] if by == "behind" else [*server, "queue", "list"]))
    assert (done.status, done.out, done.err) == (0, '["test-queue"]\n', "")

"""Each way in which a server can say no: what failed and what to try is on the screen, and it heals by itself."""

import pytest
from redis import Redis

from tests.hostile.keyspace import untouched
from tests.hostile.proxy import Proxy
from tests.hostile.using import choose_tab
from tests.hostile.watching import Dashboard, dashboard, is_dimmed, is_fresh, open_queue, press, until

pytestmark = pytest.mark.slow

REFUSALS = {
    b"-LOADING Redis is loading the dataset in memory": "the server is loading its data into memory",
    b"-NOAUTH Authentication required.": "the server requires a password",
    b"-WRONGPASS invalid username-password pair or user is disabled.": "refused the user name or password",
    b"-NOPERM this user has no permissions to run the 'time' command": "this user may not read the queues",
    b"-READONLY You can't write against a read only replica.": "the server is a read-only replica",
    b"-OOM command not allowed when used memory > 'maxmemory'.": "the server is out of memory",
    b"-MASTERDOWN Link with MASTER is down": "the replica has lost its primary",
    b"-BUSY Redis is busy running a script.": "the server is busy running a script",
    b"-CLUSTERDOWN Hash slot not served": "the cluster is down",
    b"-MOVED 3999 127.0.0.1:6381": "another node holds these keys",
    b"-ASK 3999 127.0.0.1:6381": "",
    b"-TRYAGAIN Multiple keys request during rehashing of slot": "",
    b"-CROSSSLOT Keys in request don't hash to the same slot": "the namespace spans cluster slots",
    b"-MISCONF Errors writing to the AOF file": "the server refuses writes",
    b"-ERR max number of clients reached": "the server has reached maxclients",
    b"-ERR unknown command 'TIME'": "unknown command 'TIME'",
    b"-NOPROTO unsupported protocol version": "unsupported protocol version",
    b"-": "",
    b"-ERR": "",
    b"-DENIED Redis is running in protected mode": "running in protected mode",
}

# No refusals, but nothing that a server says either.
NONSENSE = {
    "an HTTP server": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "an SMTP server": b"220 mail.example ESMTP\r\n",
    "an SSH server": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a TLS alert": b"\x15\x03\x01\x00\x02\x02\x46",
    "zeros": b"\x00" * 100,
    "a status": b"+OK\r\n",
    "a number": b":7\r\n",
    "nothing": b"$-1\r\n",
    "no list": b"*-1\r\n",
    "an empty list": b"*0\r\n",
    "a list of nothing": b"*2\r\n$-1\r\n$-1\r\n",
    "words for numbers": b"*2\r\n$3\r\nabc\r\n$3\r\ndef\r\n",
    "lists in lists": b"*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    "a length that is none": b"$abc\r\n",
    "a negative length": b"$-7\r\n",
    "an endless list": b"*999999999999\r\n",
    "a double of RESP3": b",3.14\r\n",
    "a map of RESP3": b"%1\r\n+a\r\n:1\r\n",
    "a push of RESP3": b">2\r\n+message\r\n+x\r\n",
    "not UTF-8": b"-\xff\xfe\x9b31m broken\r\n",
    "an error in a list": b"*2\r\n-ERR inner\r\n:1\r\n",
}

# Refusals whose words are an attack.
HOSTILE = (
    b"-ERR \x1b]0;PWNED\x07\x1b[2J[/foo][@click=app.quit]x[/]\\",
    b"-[/foo] [red]",
    "-ERR \u202egnp.exe\u200b\x9b31m".encode(),
    b"-ERR " + b"x" * 100_000,
    b"-ERR \x00\x00",
)


# Those below which keys are pressed too: what a search, a page or a copy makes of a refusal is the same for all others.
PRESSED = {b"-MOVED 3999 127.0.0.1:6381", b"-NOPERM this user has no permissions to run the 'time' command", *HOSTILE}


async def test_refusals(orders: Redis, proxy: Proxy) -> None:
    with untouched(orders):
        async with dashboard(proxy.url, size=(120, 30), timeout_s=1.0, interval_s=0.03) as pilot:
            await until(pilot, "● live", "orders")
            await open_queue(pilot, "orders")
            for refusal, words in (REFUSALS | dict.fromkeys(HOSTILE, "")).items():
                proxy.answer(refusal + b"\r\n")
                await until(pilot, "✗ stale", words, lambda: is_dimmed(pilot))
                if refusal in PRESSED:
                    # A page that cannot be read leaves the tab where it was; a search is called failed there.
                    await press(pilot, "l", "h", "y", "l", "l", "r")
                    # Each y says in a corner why it failed; a pile of those would soon lie over the status line.
                    pilot.app.clear_notifications()
                proxy.forward()
                await until(pilot, "● live", lambda: is_fresh(pilot))
                if refusal in PRESSED:
                    await choose_tab(pilot)
                    await until(pilot, "● live", '{"order": 1}', lambda: is_fresh(pilot))


@pytest.mark.parametrize("refusal", [*list(REFUSALS)[:2], *HOSTILE[:1]], ids=lambda refusal: repr(refusal[1:12]))
async def test_a_refusal_from_the_start(orders: Redis, proxy: Proxy, refusal: bytes) -> None:
    proxy.answer(refusal + b"\r\n")
    with untouched(orders):
        async with dashboard(proxy.url) as pilot:
            text = await until(pilot, "✗ no data yet", "Cannot read redis://127.0.0.1", "Try: ")
            assert REFUSALS.get(refusal, "") in text
            # What is asked for meanwhile fails in words, too.
            await press(pilot, "n")
            await until(pilot, "Namespaces on this server")
            await press(pilot, "escape")
            proxy.forward()
            await until(pilot, "● live", "orders")


async def stale_for_a_while(pilot: Dashboard, proxy: Proxy, reply: bytes, *keys: str) -> None:
    """Answer everything with that reply until the dashboard says so and keys were pressed."""
    proxy.answer(reply)
    await until(pilot, "✗ stale")
    await press(pilot, *keys)
    proxy.forward()


async def test_something_that_is_no_server(orders: Redis, proxy: Proxy) -> None:
    with untouched(orders):
        async with dashboard(proxy.url, timeout_s=0.3) as pilot:
            await until(pilot, "● live")
            for nonsense in NONSENSE.values():
                await stale_for_a_while(pilot, proxy, nonsense)
                await until(pilot, "● live", "orders")


async def test_a_server_that_turns_into_something_else_below_a_queue(orders: Redis, proxy: Proxy) -> None:
    with untouched(orders):
        async with dashboard(proxy.url, timeout_s=0.3) as pilot:
            await until(pilot, "● live")
            await open_queue(pilot, "orders")
            for name in ("a status", "words for numbers", "a list of nothing", "an HTTP server", "not UTF-8"):
                await stale_for_a_while(pilot, proxy, NONSENSE[name], "l", "h", "y", "n", "escape", "enter")
                await until(pilot, "● live")
                while len(pilot.app.screen_stack) > 2:
                    await press(pilot, "escape")
                await until(pilot, lambda: is_fresh(pilot))
                await choose_tab(pilot)
                await until(pilot, '{"order": 1}', lambda: is_fresh(pilot))

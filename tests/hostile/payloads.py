"""What an enemy, or a careless producer, puts where names, ids, bodies and numbers belong."""

import json

from redis import Redis

from rsmq_tui.protocol import Rsmq

# What each does on a terminal that believes it, or to a program that takes it for markup.
SNIPPETS: dict[str, bytes] = {
    "ansi": b"\x1b[2J\x1b[1;1H\x1b[31mPWNED\x1b[0m\x1b[?1049l\x1b[?25h",
    "osc-title": b"\x1b]0;PWNED-title\x07",
    "osc-link": b"\x1b]8;;http://evil.example/\x1b\\PWNED-link\x1b]8;;\x1b\\",
    "osc-clipboard": b"\x1b]52;c;UFdORUQ=\x07",
    "dcs": b"\x1bP1$tPWNED\x1b\\\x1bP+q544e\x1b\\",
    "apc-pm-sos": b"\x1b_PWNED\x1b\\\x1b^PWNED\x1b\\\x1bXPWNED\x1b\\",
    "reset": b"\x1bc\x1b#8\x1b(0\x0e\x0f\x05",
    "c1-raw": b"\x9b31m\x9d0;PWNED\x9c\x90PWNED\x9c\x84\x85\x8d",
    "c1-utf8": "\x9b31m\x9d0;PWNED\x9c\x90PWNED\x9c\x84\x85\x8d".encode(),
    "markup-close": b"[/foo]",
    "markup-style": b"[red]PWNED[/red][bold][/]",
    "markup-action": b"[@click=app.quit]x[/]",
    "markup-escape": b"\\[/foo]\\\\[/foo]\\",
    "markup-variable": b"$name [$primary] [link='http://evil.example']x[/link]",
    "nul": b"a\x00b\x00",
    "controls": bytes(range(0x20)) + b"\x7f",
    "not-utf8": b"\xff\xfe\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82",
    "bidi": "\u202egnp.exe\u202c\u2066x\u2069\u200f\u061c".encode(),
    "zero-width": b"a\xe2\x80\x8bb\xe2\x80\x8dc\xe2\x81\xa0d\xef\xbb\xbf\xc2\xad",
    "combining": ("Z" + "\u0310\u0334\u0489" * 2_000).encode(),
    "variation": "❤\ufe0f👍🏽👨\u200d👩\u200d👧🏴\U000e0067\U000e007f".encode(),
    "wide": ("订单" * 300).encode(),
    "private": "\ue000\U000f0000\U0010ffff\uffff\ufdd0".encode(),
    "separators": "a\u2028b\u2029c\x85d\u3000e\u00a0f".encode(),
    "newlines": b"\r\n\n\r\x0b\x0c\x1c\x1d\x1e",
    "tabs": b"\t\tx\t" * 40,
    "empty": b"",
    "spaces": b" " * 300,
    "long": b"long" * 2_500,
    "quotes": b"\"'`;$(reboot)%s%n{0}{name}",
}

# Several at once, for screens that show one name or one body.
ESCAPES = b"".join(SNIPPETS[name] for name in ("osc-title", "ansi", "osc-clipboard", "c1-utf8", "reset"))
MARKUP = b"".join(SNIPPETS[name] for name in ("markup-close", "markup-action", "markup-style", "markup-escape"))
UNREADABLE = b"".join(SNIPPETS[name] for name in ("bidi", "nul", "not-utf8", "zero-width", "combining"))
ALL_LINES = b"\n".join(SNIPPETS.values())
JSON = json.dumps(
    {value.decode("utf-8", "replace")[:200]: value.decode("utf-8", "replace") for value in SNIPPETS.values()},
    ensure_ascii=False,
).encode()

MEGABYTES = 10_000_000
LONG_NAME = "n" * 10_000


def large() -> dict[str, bytes]:
    """Bodies that are only harmful by their size or depth; made when needed, as they take 35 MB."""
    return {
        "one-line": b"x" * MEGABYTES,
        "newlines": b"\n" * MEGABYTES,
        "escapes": b"\x1b[31m" * 300_000,
        "not-utf8": b"\xff" * MEGABYTES,
        "wide": "订".encode() * 500_000,
        "deep-json": b"[" * 100_000,
        "closed-deep-json": b"[" * 100_000 + b"]" * 100_000,
        "json-of-nothing": b"[" + b"[]," * 100_000 + b"0]",
        "long-number": b"9" * 900_000,
        "long-string": b'"' + b"\\u001b[31m" * 90_000 + b'"',
    }


def fill(client: Redis) -> None:
    """Make an honest queue of two messages."""
    queues = Rsmq(client)
    queues.create_queue("orders")
    queues.send_messages("orders", ['{"order": 1}', '{"order": 2}'])


def plant_queue(client: Redis, name: bytes, **fields: bytes | str | int) -> None:
    """Make a queue by hand, so that nothing checks what it is called or what its fields hold."""
    now_s = client.time()[0]
    usual = {"vt": 30, "delay": 0, "maxsize": 65536, "created": now_s, "modified": now_s}
    client.sadd("rsmq:QUEUES", name)
    client.hset(b"rsmq:" + name + b":Q", mapping={**usual, **fields})


def plant_message(client: Redis, queue: bytes, id: bytes, body: bytes, **fields: bytes | int) -> None:
    """Put a message there by hand; it is ready at once."""
    client.zadd(b"rsmq:" + queue, {id: client.time()[0] * 1000})
    client.hset(b"rsmq:" + queue + b":Q", mapping={id: body})
    for field, value in fields.items():
        client.hset(b"rsmq:" + queue + b":Q", id + b":" + field.encode(), value)

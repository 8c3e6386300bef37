"""Compressed and encoded bodies: what is recognised, what is left alone, and what a bomb does."""

import base64
import gzip
import json
import os
import sys
import zlib
from collections.abc import Callable

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.monitor.messages import decoding
from rsmq_tui.monitor.messages.decoding import LAYERS_MAX, Decoded, decode, encode

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DOCUMENT = {"id": 4711, "lines": [{"sku": "a"}, {"sku": "b"}]}
JSON = json.dumps(DOCUMENT).encode()
PACKED = msgpack.packb(DOCUMENT)


def _named(value: object) -> str:
    """Name a case by its words: gzip writes the time into a body, and the names of tests must not change."""
    return value if isinstance(value, str) else "body"


@pytest.mark.parametrize(
    ("body", "layers"),
    [
        (gzip.compress(JSON), "gzip, JSON"),
        (gzip.compress(JSON[:9]) + gzip.compress(JSON[9:]) + bytes(512), "gzip, JSON"),
        (zlib.compress(JSON), "zlib, JSON"),
        (zlib.compress(JSON, 1), "zlib, JSON"),
        (zstd.compress(JSON), "zstd, JSON"),
        (PACKED, "MessagePack, JSON"),
        (base64.b64encode(JSON), "base64, JSON"),
        (base64.urlsafe_b64encode(JSON).rstrip(b"="), "base64, JSON"),
        (base64.encodebytes(gzip.compress(JSON)), "base64, gzip, JSON"),
        (base64.b64encode(PACKED), "base64, MessagePack, JSON"),
        (gzip.compress(base64.b64encode(zstd.compress(JSON))), "gzip, base64, zstd, JSON"),
        (json.dumps(JSON.decode()).encode(), "JSON string, JSON"),
        (json.dumps(json.dumps(JSON.decode())).encode(), "JSON string, JSON string, JSON"),
    ],
    ids=_named,
)
def test_layers_are_recognised_and_named(body: bytes, layers: str) -> None:
    decoded = decode(body)
    assert ", ".join(decoded.layers) == layers
    assert json.loads(decoded.data) == DOCUMENT
    assert decoded.problem == ""


def test_json_in_strings_is_opened_in_place() -> None:
    inner = json.dumps({"deep": JSON.decode(), "n": 1.10})
    body = json.dumps(
        {'{"key"': 1, "detail": inner, "list": " [1, 2]", "text": "[not json]", "cut": inner[:-1]}
    ).encode()
    decoded = decode(body.replace(b"1.1,", b"1.10,"))
    assert decoded.layers == ("JSON", "JSON in 3 strings")
    found = json.loads(decoded.data)
    assert found["detail"] == {"deep": DOCUMENT, "n": 1.1}
    assert (found["list"], found["text"], found["cut"]) == ([1, 2], "[not json]", inner[:-1])
    assert found['{"key"'] == 1


def test_a_key_that_looks_like_json_stays_a_key_at_the_end_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_JSON_BYTES", 40)
    for length in range(60):
        document = {"a": "x" * length, '{"k": 1}': JSON.decode()}
        for separators in ((",", ":"), (" , ", " : ")):
            found = json.loads(decode(json.dumps(document, separators=separators).encode()).data)
            assert found == {**document, '{"k": 1}': DOCUMENT}


def test_base64_may_be_broken_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    body = base64.b64encode(JSON)
    for step in (5, 8):
        monkeypatch.setattr(decoding, "_STEP_BYTES", step)
        for place in range(0, len(body), 7):
            assert decode(body[:place] + b"\r\n " + body[place:] + b"\n").data == JSON


def test_message_pack_has_values_that_json_has_not() -> None:
    odd = {1: b"\xff\x00", "when": msgpack.Timestamp(1_700_000_000), "more": msgpack.ExtType(5, b"x"), "nan": None}
    assert json.loads(decode(msgpack.packb(odd)).data) == {
        "1": "/wA=",
        "when": "2023-11-14 22:13:20+00:00",
        "more": [5, "eA=="],
        "nan": None,
    }


@pytest.mark.parametrize(
    "body",
    [b"", b"deadbeef", b"deadbeef" * 8, b"test", b"customers/eu/orders/2031/05", b"12345678901234567890123456789012",
     b"550e8400-e29b-41d4-a716-446655440000", b"x^2 + y^2", b"x\x9c is not zlib", JSON, b'"a text"', b'"{broken"',
     "größe".encode(), b"\xff\xfe\x00", b"\x93" + bytes(range(200, 240)), b"[" * 100_000, b'{"a":"' + b"\\" * 99_999,
     base64.b64encode(bytes(range(256)))],
    ids=lambda body: repr(body[:16]),
)  # fmt: skip
def test_what_is_nothing_of_the_kind_is_left_alone(body: bytes) -> None:
    assert decode(body) == Decoded(body)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (gzip.compress(JSON)[:-9], "gzip: it ends too early"),
        (gzip.compress(JSON)[:-8] + bytes(8), "gzip: it is damaged"),
        (zstd.compress(JSON)[:-3], "zstd: it ends too early"),
        (gzip.compress(b"") * 2000, "gzip: it has more than 1,000 parts"),
        (base64.b64encode(JSON * 100) + b"!", "base64: it has other characters further on"),
        (msgpack.packb({"a": "x" * 1_000_001}), "MessagePack: longer than 1,000,000 bytes"),
    ],
    ids=_named,
)
def test_why_a_layer_is_not_decoded(body: bytes, problem: str) -> None:
    assert decode(body) == Decoded(body, (), problem)


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress, zstd.compress])
def test_a_bomb_is_given_up_at_the_limit(compress: object, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = compress(bytes(5_000_000))  # type: ignore[operator]
    monkeypatch.setattr(decoding, "OUTPUT_BYTES_MAX", 1_000_000)
    decoded = decode(bomb)
    assert decoded.data == bomb
    assert decoded.problem.endswith(": more than 1,000,000 bytes")


@pytest.mark.parametrize(
    "wrap",
    [gzip.compress, zlib.compress, zstd.compress, base64.b64encode,
     lambda body: base64.urlsafe_b64encode(body).rstrip(b"="),
     lambda body: base64.b64encode(gzip.compress(body)), lambda body: zstd.compress(json.dumps(body.decode()).encode()),
     lambda body: base64.encodebytes(msgpack.packb(json.loads(body))), lambda body: body],
    ids=["gzip", "zlib", "zstd", "base64", "base64 for URLs", "two", "JSON string", "MessagePack", "none"],
)  # fmt: skip
def test_content_is_encoded_as_a_body_was(wrap: Callable[[bytes], bytes]) -> None:
    stored = wrap(json.dumps({**DOCUMENT, "note": "??>>" * 9}).encode())
    changed = json.dumps({**DOCUMENT, "note": "??>>??" * 9}).encode()
    encoded = encode(changed, stored, decode(stored).layers)
    assert encoded is not None
    found = decode(encoded)
    assert found.layers == decode(stored).layers
    assert json.loads(found.data) == json.loads(changed)
    if "base64" in found.layers:
        assert (b"=" in encoded, b"-" in encoded) == (b"=" in wrap(changed), b"-" in wrap(changed))


@pytest.mark.parametrize(
    ("stored", "content"),
    [(msgpack.packb({"a": b"binary"}), JSON), (PACKED, b"not json"), (PACKED, b'{"a": 99999999999999999999}'),
     (json.dumps({"a": JSON.decode()}).encode(), JSON), (json.dumps(JSON.decode()).encode(), b"\xff")],
    ids=["other types", "not JSON", "too large", "opened strings", "not UTF-8"],
)  # fmt: skip
def test_what_cannot_be_encoded_again(stored: bytes, content: bytes) -> None:
    assert encode(content, stored, decode(stored).layers) is None


def test_strings_in_a_long_document_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "OUTPUT_BYTES_MAX", 1000)
    body = json.dumps([JSON.decode()] * 50).encode()
    assert decode(body) == Decoded(body, (), "JSON in strings is not decoded: more than 1,000 bytes")


def test_a_bomb_within_a_layer_and_too_many_layers() -> None:
    body = JSON
    for _ in range(LAYERS_MAX + 1):
        body = gzip.compress(body)
    decoded = decode(body)
    assert decoded.layers == ("gzip",) * LAYERS_MAX
    assert decoded.problem == f"gzip: only {LAYERS_MAX} layers are decoded"
    assert json.loads(decode(decoded.data).data) == DOCUMENT


def test_without_the_libraries_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("msgpack", "backports.zstd", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    assert decode(PACKED).problem == "MessagePack: install rsmq-tui[bodies] to decode it"
    assert decode(zstd.compress(JSON)).problem == "zstd: install rsmq-tui[bodies] to decode it"


@given(
    st.binary(max_size=300), st.sampled_from([b"", b"\x1f\x8b\x08", b"x\x9c", b"\x28\xb5\x2f\xfd", b"\x82\xa1", b'{"'])
)
def test_no_bytes_make_it_raise(body: bytes, start: bytes) -> None:
    decode(start + body)
    decode(base64.b64encode(start + body))


def test_each_step_is_short_of_work() -> None:
    body = gzip.compress(os.urandom(1_000_000))
    assert sum(1 for _ in decoding.decoding(body)) >= 8

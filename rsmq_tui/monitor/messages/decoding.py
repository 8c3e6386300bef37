"""Recognises compressed and encoded bodies, decodes them layer by layer, and encodes them again.

A body may be gzip, zlib, zstd, MessagePack, base64, a JSON string that holds JSON, or JSON with such strings in it; and
each of them may hold another. zstd and MessagePack need the packages of the extra ``bodies``.

The result is bounded by ``OUTPUT_BYTES_MAX`` for all layers together, and by ``LAYERS_MAX``. No body makes these
functions raise. ``decoding`` works in steps of a few milliseconds, so that a user interface can do other work between
them.
"""

import base64
import binascii
import gzip
import importlib
import json
import re
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

OUTPUT_BYTES_MAX = 64_000_000
LAYERS_MAX = 8
_STEP_BYTES = 128 << 10
_JSON_BYTES = 32 << 10
_INPUT_BYTES = 16 << 10
# Each part of a compressed body costs the same, even if it is empty.
_PARTS_MAX = 1000
# MessagePack, and a JSON string, are decoded in one call, which blocks everything else.
_WHOLE_BYTES_MAX = 1_000_000
# A shorter word may be base64 by chance.
_BASE64_CHARS_MIN = 24
_START_BYTES = 4 << 10

_MISSING = "install rsmq-tui[bodies] to decode it"
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
# Group 1 is the text before the string; group 2 is a string that may hold an object or an array, unless it is a key.
# The pattern matches everywhere, even without such a string: searching for the next one from every position would take
# quadratic time.
_HOLDING = rb'"\s*+[{\[](?:[^"\\]++|\\.)*+"(?!\s*+:)'
_HOLDERS = re.compile(rb'((?:[^"]++|(?!' + _HOLDING + rb")" + _STRING + rb")*+)(" + _HOLDING + rb")?+", re.DOTALL)
# A string followed by a colon is a key: no part of a text ends between the two.
_TOKENS = re.compile(rb'(?:[^"]++|' + _STRING + rb'\s*+[^\s"])*+', re.DOTALL)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_\s-]+={0,2}\s*")
_SPACE = b" \t\r\n"


class _UndecodableError(Exception):
    """Why a layer that was recognised could not be decoded; empty if it was probably something else."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """``data`` is what the layers hold, from the outermost on; ``problem`` is why a further one was not decoded."""

    data: bytes
    layers: tuple[str, ...] = ()
    problem: str = ""


# Yields the work done with each step, and returns the content of a layer. Raises _UndecodableError.
_Steps = Generator[None, None, bytes]


def decode(body: bytes) -> Decoded:
    """Decode all layers of a body."""
    return _finished(decoding(body))


def decoding(body: bytes) -> Generator[None, None, Decoded]:
    """Decode all layers of a body step by step; the result is what the generator returns."""
    layers: list[str] = []
    data, room = body, OUTPUT_BYTES_MAX
    while (name := _layer_of(data)) is not None:
        if len(layers) == LAYERS_MAX:
            return Decoded(data, tuple(layers), f"{name}: only {LAYERS_MAX} layers are decoded")
        try:
            content = yield from _DECODERS[name](data, room)
        except _UndecodableError as error:
            return Decoded(data, tuple(layers), f"{name}: {error}" if str(error) else "")
        layers.append(name)
        data, room = content, room - len(content)
    if _first(data) in (b"{", b"["):
        if len(data) > room:
            problem = f"JSON in strings is not decoded: more than {OUTPUT_BYTES_MAX:,} bytes"
            return Decoded(data, (*layers, "JSON") if layers else (), problem)
        data, opened = yield from _opened_strings(data, room)
        layers += ["JSON"] if layers or opened else []
        layers += [f"JSON in {opened:,} string{'s' * (opened > 1)}"] if opened else []
    return Decoded(data, tuple(layers))


def encode(content: bytes, like: bytes, layers: Sequence[str]) -> bytes | None:
    """Encode content in the layers that ``decode`` found in the body ``like``; None if one cannot be made again.

    MessagePack can be if it holds nothing that JSON does not; strings in JSON that were opened cannot.
    """
    around = []
    try:
        for name in layers:
            if name in _DECODERS:
                around.append((name, like))
                like = _finished(_DECODERS[name](like, OUTPUT_BYTES_MAX))
            elif name != "JSON":
                return None
        if around and around[-1][0] == "MessagePack" and _packed(like, b"") != around[-1][1]:
            return None
        for name, before in reversed(around):
            content = _ENCODERS[name](content, before)
    except (_UndecodableError, ValueError, TypeError, OverflowError, RecursionError):
        return None
    return content


class Steps(Generic[T]):
    """Iterates over a generator whose steps do the work; then ``result`` is what it has returned."""

    def __init__(self, steps: Generator[None, None, T]) -> None:
        self._steps = steps
        self.result: T

    def __iter__(self) -> Iterator[None]:
        """Do one step after another."""
        self.result = yield from self._steps


def _finished(work: Generator[None, None, T]) -> T:
    steps = Steps(work)
    for _ in steps:
        pass
    return steps.result


def _layer_of(data: bytes, *, is_in_base64: bool = False) -> str | None:
    """Return the name of the outermost layer; None if there is none."""
    if data.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    if data[:2] in (b"x\x01", b"x^", b"x\x9c", b"x\xda") and _begins_zlib(data):
        return "zlib"
    if data and (0x80 <= data[0] <= 0x9F or 0xDC <= data[0] <= 0xDF) and not is_in_base64 and not _is_text(data):
        return "MessagePack"
    if _first(data) == b'"' and _held_json(data) is not None:
        return "JSON string"
    return "base64" if not is_in_base64 and _is_base64(data) else None


def _first(data: bytes) -> bytes:
    """Return the first byte that is not whitespace."""
    return data[:_START_BYTES].lstrip(_SPACE)[:1]


def _begins_zlib(data: bytes) -> bool:
    # A text may begin with the same two bytes.
    try:
        zlib.decompressobj().decompress(data[:_START_BYTES], _START_BYTES)
    except zlib.error:
        return False
    return True


def _is_text(data: bytes) -> bool:
    """Return whether bytes are printable text, as far as their start shows."""
    start = data[:_START_BYTES]
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        # The start may end within a character.
        if error.start < _START_BYTES - 3:
            return False
        text = start[: error.start].decode()
    return all(character.isprintable() or character in "\t\r\n" for character in text)


def _is_base64(data: bytes) -> bool:
    """Return whether bytes are base64 of something that is recognised: words and numbers may look like base64 too."""
    start = data[:_START_BYTES].translate(None, _SPACE)
    if len(start) < _BASE64_CHARS_MIN or not _BASE64.fullmatch(start):
        return False
    try:
        start = _from_base64(start[: len(start) // 4 * 4])
    except binascii.Error:
        return False
    return _layer_of(start, is_in_base64=True) is not None or _is_text(start) or _is_packed(start)


def _is_packed(data: bytes) -> bool:
    """Return whether bytes begin like a MessagePack map whose first key is a string."""
    key = {0xDE: 3, 0xDF: 5}.get(data[0], 1) if data else 0
    return bool(data) and (0x81 <= data[0] <= 0x8F or data[0] in (0xDE, 0xDF)) and data[key : key + 1] >= b"\xa1"


def _from_base64(text: bytes) -> bytes:
    return base64.b64decode(text, b"-_" if b"-" in text or b"_" in text else None, validate=True)


def _debased(data: bytes, room: int) -> _Steps:
    out, left = bytearray(), b""
    for start in range(0, len(data), _STEP_BYTES):
        text = left + data[start : start + _STEP_BYTES].translate(None, _SPACE)
        is_last = start + _STEP_BYTES >= len(data)
        whole = len(text) if is_last else len(text) // 4 * 4
        text, left = text[:whole] + b"=" * (-whole % 4), text[whole:]
        try:
            out += _from_base64(text)
        except binascii.Error:
            raise _UndecodableError("it has other characters further on") from None
        _check(len(out), room)
        yield
    return bytes(out)


def _inflated(begin: Callable[[], Any], data: bytes, room: int) -> _Steps:
    """Decompress all parts that a body consists of; ``begin`` makes the decompressor of one part."""
    out, view, position, parts = bytearray(), memoryview(data), 0, 0
    while position < len(data):
        stream = begin()
        parts += 1
        if parts > _PARTS_MAX:
            raise _UndecodableError(f"it has more than {_PARTS_MAX:,} parts")
        while not stream.eof:
            pending: bytes = getattr(stream, "unconsumed_tail", b"")
            chunk: bytes | memoryview = pending
            if not pending and getattr(stream, "needs_input", True):
                chunk = view[position : position + _INPUT_BYTES]
                position += len(chunk)
            try:
                got = stream.decompress(chunk, _STEP_BYTES)
            # The errors of the libraries have no common base.
            except Exception as error:
                raise _UndecodableError("it is damaged") from error
            if not got and not stream.eof and position == len(data) and not stream.unused_data and not pending:
                raise _UndecodableError("it ends too early")
            out += got
            _check(len(out), room)
            yield
        position -= len(stream.unused_data)
        # Some programs fill the last block with zeros.
        if not data[position : position + _INPUT_BYTES].strip(b"\0"):
            break
    return bytes(out)


def _gunzipped(data: bytes, room: int) -> _Steps:
    return _inflated(lambda: zlib.decompressobj(31), data, room)


def _unzlibbed(data: bytes, room: int) -> _Steps:
    return _inflated(zlib.decompressobj, data, room)


def _zstd() -> Any:
    try:
        # A part of Python since 3.14.
        return importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError:
        raise _UndecodableError(_MISSING) from None


def _unzstd(data: bytes, room: int) -> _Steps:
    zstd = _zstd()
    # A body may ask for a window, and so for memory, of gigabytes.
    return _inflated(
        lambda: zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: 26}), data, room
    )


def _unpacked(data: bytes, room: int) -> _Steps:
    """Decode a MessagePack map or array as JSON; binary values become base64, keys texts, and times ISO dates."""
    try:
        import msgpack  # noqa: PLC0415 - an extra
    except ImportError:
        raise _UndecodableError(_MISSING) from None
    if len(data) > _WHOLE_BYTES_MAX:
        raise _UndecodableError(f"longer than {_WHOLE_BYTES_MAX:,} bytes")
    yield
    try:
        value = msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogateescape", timestamp=3,
                                object_pairs_hook=_with_text_keys)  # fmt: skip
        yield
        text = json.dumps(value, ensure_ascii=False, default=_as_text)
    # Other binary data may begin with the same byte.
    except (ValueError, TypeError, RecursionError, OverflowError, msgpack.exceptions.UnpackException) as error:
        raise _UndecodableError from error
    packed = text.encode("utf-8", "surrogateescape")
    _check(len(packed), room)
    return packed


def _with_text_keys(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {key if isinstance(key, str) else json.dumps(key, default=_as_text): value for key, value in pairs}


def _as_text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _held_json(data: bytes) -> bytes | None:
    """Return the object, array or string that a JSON string holds, as text; None if it holds none."""
    if len(data) > _WHOLE_BYTES_MAX:
        return None
    try:
        text = json.loads(data)
        if isinstance(text, str) and text.lstrip()[:1] in ("{", "[", '"'):
            json.loads(text)
            return text.encode()
    except (ValueError, RecursionError):
        return None
    return None


def _unquoted(data: bytes, room: int) -> _Steps:
    held = _held_json(data) or b""
    _check(len(held), room)
    yield
    return held


def _opened_strings(data: bytes, room: int) -> Generator[None, None, tuple[bytes, int]]:
    """Return JSON in which strings that hold an object or an array are replaced by it, and how many there were."""
    opened = 0
    for _ in range(LAYERS_MAX):
        found, size, out = 0, 0, []

        def held(match: re.Match[bytes]) -> bytes:
            nonlocal found
            inner = None if match[2] is None else _held_json(match[2])
            found += inner is not None
            return match[0] if inner is None else match[1] + inner

        end = 0
        while (piece := _piece(data, end)) is not None:
            out.append(_HOLDERS.sub(held, data[end:piece]))
            end = piece
            size += len(out[-1])
            yield
        if not found or size > room:
            break
        data, opened = b"".join((*out, data[end:])), opened + found
    return data, opened


def _piece(data: bytes, start: int) -> int | None:
    """Return the end of the next part of a JSON text, between strings; None at the end, or before a long string."""
    for size in (_JSON_BYTES, _WHOLE_BYTES_MAX):
        match = _TOKENS.match(data, start, start + size)
        if match is not None and match.end() > start:
            return match.end()
    return None


def _check(size: int, room: int) -> None:
    if size > room:
        raise _UndecodableError(f"more than {OUTPUT_BYTES_MAX:,} bytes")


_DECODERS: dict[str, Callable[[bytes, int], _Steps]] = {
    "gzip": _gunzipped,
    "zlib": _unzlibbed,
    "zstd": _unzstd,
    "MessagePack": _unpacked,
    "JSON string": _unquoted,
    "base64": _debased,
}


# The names of layers that hold other bytes.
LAYERS = frozenset(_DECODERS)


def _based(content: bytes, like: bytes) -> bytes:
    text = base64.b64encode(content, b"-_" if b"-" in like or b"_" in like else None)
    is_padded = len(like.translate(None, _SPACE)) % 4 == 0
    return text if is_padded else text.rstrip(b"=")


def _packed(content: bytes, _: bytes) -> bytes:
    import msgpack  # noqa: PLC0415 - an extra

    packed: bytes = msgpack.packb(json.loads(content))
    return packed


def _quoted(content: bytes, like: bytes) -> bytes:
    return json.dumps(content.decode(), ensure_ascii=like.isascii()).encode()


# The content, and the bytes of the layer as they were.
_ENCODERS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "gzip": lambda content, _: gzip.compress(content, 6, mtime=0),
    "zlib": lambda content, _: zlib.compress(content),
    "zstd": lambda content, _: bytes(_zstd().compress(content)),
    "MessagePack": _packed,
    "JSON string": _quoted,
    "base64": _based,
}

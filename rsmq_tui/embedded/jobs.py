"""Believable message bodies, made from a seeded random generator: the same seed gives the same bodies."""

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")
Body = Callable[[Random], bytes]

_FIRST_NAMES = (
    "Ada",
    "Björn",
    "Chloé",
    "Dmitri",
    "Elif",
    "Fatima",
    "Gabriel",
    "Hana",
    "Inés",
    "Jürgen",
    "美咲",
    "Noor",
)
_LAST_NAMES = ("Okafor", "Lindqvist", "Moreau", "Ivanov", "Yılmaz", "Haddad", "Silva", "Sato", "García", "Weiß", "Kim")
_MAIL_HOSTS = ("example.com", "example.org", "mail.example.net")
_PRODUCTS = (
    ("TEE-BLK-M", "T-shirt, black, M", 1990),
    ("MUG-ENM-W", "Enamel mug, white", 1450),
    ("NTB-DOT-A5", "Notebook, dotted, A5", 990),
    ("LMP-DSK-BR", "Desk lamp, brass", 8900),
    ("BAG-CNV-GR", "Canvas bag, green", 3200),
    ("KEY-MCH-DE", "Mechanical keyboard, German layout", 12900),
    ("CBL-USC-2M", "USB-C cable, 2 m", 1200),
)
_CURRENCIES = ("EUR", "EUR", "EUR", "USD", "GBP", "SEK")
_COUNTRIES = ("DE", "FR", "SE", "ES", "PL", "GB", "US", "JP")
_REFUND_REASONS = ("damaged in transit", "wrong size", "never arrived", "changed mind", "duplicate order")
_TEMPLATES = ("order-confirmation", "shipping-notice", "password-reset", "receipt", "welcome")
_EVENTS = ("payment.captured", "payment.failed", "parcel.delivered", "customer.updated", "invoice.paid")
_SUBSCRIBERS = ("hooks.example.com", "erp.example.org/in", "api.example.net/v2/events")
_REMINDERS = ("cart-abandoned", "trial-ends", "appointment", "review-request", "payment-due")


def order(rng: Random) -> bytes:
    """An order, or one time in seven a refund."""
    if rng.random() < 1 / 7:
        return refund(rng)
    items, total_cents = [], 0
    for _ in range(1 + _below(rng, 3)):
        sku, _name, cents = _pick(rng, _PRODUCTS)
        quantity = 1 + _below(rng, 3)
        total_cents += quantity * cents
        items.append({"sku": sku, "quantity": quantity, "unit_cents": cents})
    return _json(
        type="order",
        order=_number(rng, 88_000),
        customer=_customer(rng),
        currency=_pick(rng, _CURRENCIES),
        items=items,
        total_cents=total_cents,
        ship_to=_pick(rng, _COUNTRIES),
        express=rng.random() < 0.2,
    )


def refund(rng: Random) -> bytes:
    """A refund of an order."""
    return _json(
        type="refund",
        order=_number(rng, 88_000),
        amount_cents=_pick(rng, _PRODUCTS)[2],
        currency=_pick(rng, _CURRENCIES),
        reason=_pick(rng, _REFUND_REASONS),
        requested_by=_customer(rng)["email"],
    )


def thumbnail(rng: Random) -> bytes:
    """A picture to be scaled."""
    return _json(
        type="thumbnail",
        source=f"s3://media-eu/uploads/{_hex(rng, 8)}/{_hex(rng, 4)}.{_pick(rng, ('jpg', 'png', 'heic', 'webp'))}",
        sizes=[128, 320, 1280][: 1 + _below(rng, 3)],
        format="webp",
        quality=70 + 5 * _below(rng, 5),
        bytes=200_000 + _below(rng, 9_000_000),
    )


def email(rng: Random) -> bytes:
    """A mail to be sent, mostly JSON; from older senders a finished text, compressed JSON, or nothing at all."""
    kind = _below(rng, 40)
    if kind < 4:
        return _mail_text(rng)
    if kind < 6:
        # The header says gzip and the checksum keeps the decompressor honest, but the bytes are no text.
        return zlib.compress(_email(rng), wbits=31)
    if kind == 6:
        return b""
    return _email(rng)


def invoice(rng: Random) -> bytes:
    """An invoice to be rendered and filed."""
    sku, name, cents = _pick(rng, _PRODUCTS)
    quantity = 1 + _below(rng, 12)
    return _json(
        type="invoice",
        number=f"INV-2026-{_number(rng, 40_000):06d}",
        customer=_customer(rng),
        lines=[{"sku": sku, "text": name, "quantity": quantity, "net_cents": cents * quantity}],
        vat_percent=_pick(rng, (19, 20, 21, 25)),
        due_on=f"2026-{1 + _below(rng, 12):02d}-{1 + _below(rng, 28):02d}",
    )


def cut_off_invoice(rng: Random) -> bytes:
    """An invoice whose sender stopped in the middle: no consumer can read it."""
    whole = invoice(rng)
    return whole[: len(whole) * 2 // 3]


def reminder(rng: Random) -> bytes:
    """A reminder for a customer."""
    return _json(
        type="reminder",
        kind=_pick(rng, _REMINDERS),
        customer=_customer(rng),
        channel=_pick(rng, ("email", "sms", "push")),
        attempt=1 + _below(rng, 3),
    )


def webhook(rng: Random) -> bytes:
    """A webhook as it came in: JSON, a form, a small packed heartbeat, or an empty ping."""
    kind = _below(rng, 10)
    event = _pick(rng, _EVENTS)
    if kind < 7:
        data = {"object": _hex(rng, 6), "amount_cents": 100 * _below(rng, 900), "livemode": True}
        return _json(id=f"evt_{_hex(rng, 10)}", type=event, attempt=1 + _below(rng, 2), data=data)
    if kind == 7:
        return urlencode({"event": event, "id": _hex(rng, 6), "signature": _hex(rng, 16)}).encode()
    if kind == 8:
        return struct.pack(">4sBHIQ", b"\x93HB\xff", 2, _below(rng, 65_536), _below(rng, 2**31), _number(rng, 0))
    return b""


def delivery(rng: Random) -> bytes:
    """A webhook to be sent to somebody else."""
    event = _pick(rng, _EVENTS)
    return _json(
        type="delivery",
        id=f"dlv_{_hex(rng, 10)}",
        event=event,
        url=f"https://{_pick(rng, _SUBSCRIBERS)}/{event.replace('.', '/')}",
        attempt=1 + _below(rng, 2) * _below(rng, 4),
        payload={"object": _hex(rng, 6), "amount_cents": 100 * _below(rng, 900)},
    )


def import_file(rng: Random) -> bytes:
    """A file to be read into a database."""
    what = _pick(rng, ("customers", "prices", "stock", "suppliers"))
    return _json(
        type="import",
        file=f"s3://imports-eu/{what}/{_hex(rng, 8)}.csv",
        table=what,
        rows=1_000 + _below(rng, 250_000),
        encoding=_pick(rng, ("utf-8", "utf-8", "utf-8", "windows-1252")),
        requested_by=_customer(rng)["email"],
    )


def created(body: bytes, at_ms: int) -> bytes:
    """Let a body, a JSON object that has fields, tell that it was made at ``at_ms``, in ms since the epoch."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return b'%b,"created":"%b"}' % (body[:-1], at.encode())


def is_readable_json(body: bytes) -> bool:
    """Whether a consumer that expects JSON can read that body."""
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def _email(rng: Random) -> bytes:
    customer = _customer(rng)
    return _json(
        type="email",
        template=_pick(rng, _TEMPLATES),
        to=f"{customer['name']} <{customer['email']}>",
        locale=_pick(rng, ("en", "de", "fr", "sv", "ja")),
        variables={"order": _number(rng, 88_000), "first_name": customer["name"].split()[0]},
    )


def _mail_text(rng: Random) -> bytes:
    customer = _customer(rng)
    number = _number(rng, 88_000)
    return (
        f"From: shop@example.com\nTo: {customer['email']}\nSubject: Your order {number} is on its way\n\n"
        f"Dear {customer['name']},\n\nyour order {number} left our warehouse today.\n\nThe shop\n"
    ).encode()


def _customer(rng: Random) -> dict[str, Any]:
    first, last = _pick(rng, _FIRST_NAMES), _pick(rng, _LAST_NAMES)
    number = _number(rng, 1_000)
    return {"id": number, "name": f"{first} {last}", "email": f"customer{number}@{_pick(rng, _MAIL_HOSTS)}"}


def _json(**fields: Any) -> bytes:
    return _ENCODER.encode(fields).encode()


# One encoder for all: json.dumps makes a new one for each call with these options.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)


def _below(rng: Random, limit: int) -> int:
    # Three times as fast as randrange, which matters for tens of thousands of bodies at the start.
    return int(rng.random() * limit)


def _pick(rng: Random, choices: Sequence[T]) -> T:
    return choices[int(rng.random() * len(choices))]


def _number(rng: Random, base: int) -> int:
    return base + int(rng.random() * 12_000)


def _hex(rng: Random, size: int) -> str:
    return rng.randbytes(size).hex()

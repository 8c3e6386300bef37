"""The scenarios of the demo: one value per queue (``CRASHING`` has a worker that dies), bodies, and when messages come.

The workload runs the scenarios; those that a user can name (``DEMO_SCENARIOS``) are sets of queues and controls. Rates
are per second and times in seconds of the demo's clock: ``speed`` 2 doubles the rates and halves the times. ``vt``,
delays and ages are real seconds, because the server counts those.
"""

import asyncio
import json
import struct
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import pi, sin
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


def order_body(rng: Random) -> bytes:
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


def thumbnail_body(rng: Random) -> bytes:
    """A picture to be scaled."""
    return _json(
        type="thumbnail",
        source=f"s3://media-eu/uploads/{_hex(rng, 8)}/{_hex(rng, 4)}.{_pick(rng, ('jpg', 'png', 'heic', 'webp'))}",
        sizes=[128, 320, 1280][: 1 + _below(rng, 3)],
        format="webp",
        quality=70 + 5 * _below(rng, 5),
        bytes=200_000 + _below(rng, 9_000_000),
    )


def email_body(rng: Random) -> bytes:
    """A mail to be sent: usually JSON, sometimes a finished text, compressed JSON, or an empty body."""
    kind = _below(rng, 40)
    if kind < 4:
        return _mail_text(rng)
    if kind < 6:
        # gzip: its bytes are no text.
        return zlib.compress(_email(rng), wbits=31)
    if kind == 6:
        return b""
    return _email(rng)


def invoice_body(rng: Random) -> bytes:
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


def cut_off_invoice_body(rng: Random) -> bytes:
    """A truncated invoice, which no consumer can parse."""
    whole = invoice_body(rng)
    return whole[: len(whole) * 2 // 3]


def reminder_body(rng: Random) -> bytes:
    """A reminder for a customer."""
    return _json(
        type="reminder",
        kind=_pick(rng, _REMINDERS),
        customer=_customer(rng),
        channel=_pick(rng, ("email", "sms", "push")),
        attempt=1 + _below(rng, 3),
    )


def webhook_body(rng: Random) -> bytes:
    """A received webhook: JSON, a form, a small binary heartbeat, or an empty ping."""
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


def delivery_body(rng: Random) -> bytes:
    """A webhook to be sent to a subscriber."""
    event = _pick(rng, _EVENTS)
    return _json(
        type="delivery",
        id=f"dlv_{_hex(rng, 10)}",
        event=event,
        url=f"https://{_pick(rng, _SUBSCRIBERS)}/{event.replace('.', '/')}",
        attempt=1 + _below(rng, 2) * _below(rng, 4),
        payload={"object": _hex(rng, 6), "amount_cents": 100 * _below(rng, 900)},
    )


def import_file_body(rng: Random) -> bytes:
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
    """Add the field ``created`` to a body, a JSON object with fields; ``at_ms`` is in ms since the epoch."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return b'%b,"created":"%b"}' % (body[:-1], at.encode())


def is_readable_json(body: bytes) -> bool:
    """Return whether a body is valid JSON."""
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


@dataclass(frozen=True, slots=True)
class VariedRate:
    """A rate: ``per_s``, varied by the share ``sway``, with ``burst`` more in one second of each ``burst_every_s``."""

    per_s: float
    sway: float = 0.0
    sway_every_s: float = 90.0
    burst: int = 0
    burst_every_s: float = 20.0

    def rate(self, at_s: float) -> float:
        """Return the rate per second at a time."""
        rate = self.per_s * (1.0 + self.sway * sin(2 * pi * at_s / self.sway_every_s))
        return rate + self.burst if at_s % self.burst_every_s < 1.0 else rate


@dataclass(frozen=True, slots=True)
class Backlog:
    """The messages in the queue at the start: ``count`` messages, the oldest sent ``oldest_s`` ago.

    ``skew`` above 1 makes most of them old, below 1 most of them new. ``rcs`` are receive counts, used in turn.
    ``body`` is by default that of the scenario. If the scenario has delays, each message is within its delay instead.
    """

    count: int
    oldest_s: float = 0.0
    skew: float = 1.0
    rcs: tuple[int, ...] = (0,)
    body: Body | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds the depth: at ``high`` messages the rate drops to ``relief_per_s``, until the depth is below ``low``."""

    low: int
    high: int
    relief_per_s: float


@dataclass(frozen=True, slots=True)
class Consumer:
    """Receives messages at ``pace``, works on each for a time within ``work_s``, and deletes it.

    A share ``fails`` of them is not deleted, nor are those for which ``can_read`` returns False.
    """

    pace: VariedRate
    work_s: tuple[float, float] = (0.5, 1.5)
    fails: float = 0.0
    can_read: Callable[[bytes], bool] | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One queue: its messages, its consumer, and its backlog at the start.

    ``delay_s`` is the range of the senders' delays, None for none; without a ``consumer`` no message is received.
    """

    queue: str
    body: Body
    arrivals: VariedRate
    consumer: Consumer | None
    vt_s: int = 30
    delay_s: tuple[int, int] | None = None
    backlog: Backlog | None = None
    bounds: Bounds | None = None


# Just enough consumers: some dozens of messages wait while arrivals exceed their pace, and none a moment later.
OK = Scenario(
    queue="thumbnails",
    body=thumbnail_body,
    arrivals=VariedRate(180.0, sway=0.08),
    consumer=Consumer(VariedRate(187.0), work_s=(2.0, 5.0)),
)

# Grows by some 20/s for a quarter of an hour, then recovers by 15/s for 22 minutes: always 36,000 to 56,000.
GROWING = Scenario(
    queue="orders",
    body=order_body,
    arrivals=VariedRate(60.0, sway=0.1),
    consumer=Consumer(VariedRate(42.0), work_s=(2.0, 6.0), fails=0.05),
    backlog=Backlog(38_000, oldest_s=8_040.0, skew=3.0, rcs=(0,) * 24 + (1,)),
    bounds=Bounds(low=36_000, high=56_000, relief_per_s=25.0),
)

# Without a consumer it grows until the senders stop: 30,000 messages after 40 minutes.
STALLED = Scenario(
    queue="emails",
    body=email_body,
    arrivals=VariedRate(12.0, sway=0.2, sway_every_s=50.0),
    consumer=None,
    backlog=Backlog(3_000, oldest_s=2_460.0, skew=0.4),
    bounds=Bounds(low=29_000, high=30_000, relief_per_s=0.0),
)

POISONED = Scenario(
    queue="invoices",
    body=invoice_body,
    arrivals=VariedRate(0.2),
    consumer=Consumer(VariedRate(1.5), can_read=is_readable_json),
    vt_s=5,
    backlog=Backlog(9, oldest_s=1_320.0, rcs=(9, 3, 7, 9, 4, 8, 2, 9, 7), body=cut_off_invoice_body),
)

DELAYED = Scenario(
    queue="reminders",
    body=reminder_body,
    arrivals=VariedRate(0.4),
    consumer=Consumer(VariedRate(2.0)),
    delay_s=(30, 600),
    backlog=Backlog(120),
)

BURSTING = Scenario(
    queue="webhooks",
    body=webhook_body,
    arrivals=VariedRate(1.5, burst=60),
    consumer=Consumer(VariedRate(30.0)),
)

# The large backlog comes last, so that the others are complete before it.
SCENARIOS = (OK, STALLED, POISONED, DELAYED, BURSTING, GROWING)


@dataclass(frozen=True, slots=True)
class Hands:
    """A worker with ``count`` tasks: each waits for an item, works on it for a time within ``work_s``, and repeats.

    With ``lease_ms`` an item stays in processing, under a lease of that many real ms, until it is acknowledged;
    otherwise it is popped. A worker with ``dies_after_s`` leaves its items in processing when it dies, and a new worker
    starts ``down_s`` later.
    """

    count: int
    work_s: tuple[float, float]
    lease_ms: int | None = None
    dies_after_s: tuple[float, float] | None = None
    down_s: float = 4.0


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Items left in processing: ``leased`` ones whose leases ended ``ended_s`` ago, and ``unleased`` ones."""

    leased: int
    unleased: int
    ended_s: float


@dataclass(frozen=True, slots=True)
class ListScenario:
    """One list queue, by its whole key: its items, its worker, and its backlog at the start.

    Each item is ``body``, a JSON object, with a field ``created``. Without a ``worker`` no item is taken; without
    ``reap_every_s`` nothing that was left in processing returns to the queue.
    """

    queue: str
    body: Body
    arrivals: VariedRate
    worker: Hands | None
    reap_every_s: float | None = None
    backlog: Backlog | None = None
    abandoned: Abandoned | None = None
    bounds: Bounds | None = None

    @property
    def needs_scripts(self) -> bool:
        """Whether its workers take leases, or its reaper returns items, both by Lua scripts."""
        return self.reap_every_s is not None or (self.worker is not None and self.worker.lease_ms is not None)


# Each time the worker dies, about eight items stay in processing; their leases end within five seconds, and the reaper,
# which runs every twenty, returns them before the verdict is leaking. A worker died just before the start, so that
# expired leases are visible at once.
CRASHING = ListScenario(
    queue="queue:thumbnails",
    body=thumbnail_body,
    arrivals=VariedRate(4.0, sway=0.15, sway_every_s=70.0),
    worker=Hands(12, work_s=(0.8, 3.0), lease_ms=5_000, dies_after_s=(22.0, 38.0)),
    reap_every_s=20.0,
    abandoned=Abandoned(leased=7, unleased=1, ended_s=1.0),
    bounds=Bounds(low=50, high=500, relief_per_s=1.0),
)

# Old at first, and clears by some 4/s; after that it grows by some 2/s for ten minutes, and clears again: always 600 to
# 1,800.
CLEARING = ListScenario(
    queue="queue:webhooks-out",
    body=delivery_body,
    arrivals=VariedRate(10.0, sway=0.1, sway_every_s=40.0),
    worker=Hands(2, work_s=(0.15, 0.35)),
    backlog=Backlog(1_900, oldest_s=1_500.0),
    bounds=Bounds(low=600, high=1_800, relief_per_s=4.0),
)

# Its worker died long ago, and no reaper returns its items. The queue grows until the senders stop: 900 items after 40
# minutes.
ABANDONED = ListScenario(
    queue="queue:imports",
    body=import_file_body,
    arrivals=VariedRate(0.3),
    worker=None,
    backlog=Backlog(240, oldest_s=2_790.0),
    abandoned=Abandoned(leased=9, unleased=3, ended_s=2_760.0),
    bounds=Bounds(low=880, high=900, relief_per_s=0.0),
)

LIST_SCENARIOS = (CRASHING, CLEARING, ABANDONED)


@dataclass(frozen=True, slots=True)
class DemoScenario:
    """What a demo begins with: its queues, and the controls that are on, each with its queue, or "" for the server."""

    sentence: str
    queues: tuple[Scenario | ListScenario, ...]
    controls: tuple[tuple[str, str], ...] = ()


# The lists come first, because their backlogs are small.
MIXED = DemoScenario("every kind of trouble at once, each in a queue of its own", (*LIST_SCENARIOS, *SCENARIOS))

_CALM_ORDERS = Scenario("orders", order_body, VariedRate(20.0, sway=0.1), Consumer(VariedRate(30.0)))
_CALM_EMAILS = Scenario("emails", email_body, VariedRate(5.0, sway=0.2), Consumer(VariedRate(15.0)))
_CALM = (
    ListScenario("queue:thumbnails", thumbnail_body, VariedRate(4.0), Hands(12, (0.8, 2.5), lease_ms=10_000), 20.0),
    # Some items are always there: an empty list does not exist.
    ListScenario(
        "queue:webhooks-out",
        delivery_body,
        VariedRate(7.0),
        Hands(1, (0.1, 0.22)),
        backlog=Backlog(30),
        bounds=Bounds(low=20, high=60, relief_per_s=4.0),
    ),
    _CALM_EMAILS,
    _CALM_ORDERS,
)
_DEAD_LETTERS = Scenario(
    "orders-dlq", order_body, VariedRate(0.0), None, backlog=Backlog(40, oldest_s=5_400.0, rcs=(6, 7, 9))
)

# Messages of orders are in flight for long enough to be watched; those with the least time left are the failed ones.
_TOUR = (
    _CALM[0],
    Scenario("emails", email_body, VariedRate(0.5), None, backlog=Backlog(300, oldest_s=2_460.0, skew=0.4)),
    Scenario("orders", order_body, VariedRate(2.0), Consumer(VariedRate(4.0), work_s=(25.0, 50.0), fails=0.1), vt_s=60),
    _DEAD_LETTERS,
)

DEMO_SCENARIOS = {
    "mixed": MIXED,
    "healthy": DemoScenario("four queues whose consumers keep up", _CALM),
    "stalled-consumer": DemoScenario("nobody receives from emails", _CALM, (("consumer-stop", "emails"),)),
    "slow-consumer": DemoScenario(
        "orders arrive faster than they are processed", _CALM, (("consumer-slow", "orders"),)
    ),
    "crash-loop": DemoScenario(
        "the consumer of orders dies on each message, so each comes back", _CALM, (("consumer-crash", "orders"),)
    ),
    "poison": DemoScenario("emails has a message that no consumer can read", _CALM, (("poison", "emails"),)),
    "backlog": DemoScenario("orders has some 40,000 messages, hours old", (*_CALM[:-1], GROWING)),
    "burst": DemoScenario("1,000 orders at once", _CALM, (("burst", "orders"),)),
    "delayed": DemoScenario("emails are sent with a delay of 20 to 60 s", _CALM, (("delays", "emails"),)),
    "wrong-clock": DemoScenario(
        "the clock of a sender is an hour behind", _CALM, (("wrong-clock", "orders"), ("consumer-slow", "orders"))
    ),
    "odd-dates": DemoScenario(
        "a client writes seconds where others write milliseconds", _CALM, (("odd-dates", "emails"),)
    ),
    "leases": DemoScenario("workers of lists that die, with and without a reaper", (CRASHING, ABANDONED, *_CALM[1:])),
    "dead-letters": DemoScenario("40 dead letters wait in orders-dlq", (*_CALM, _DEAD_LETTERS)),
    "tour": DemoScenario("a healthy queue, one without a consumer, and dead letters", _TOUR),
    "slow-server": DemoScenario("the server answers slowly", _CALM, (("server-slow", ""),)),
    "paused-server": DemoScenario("the server hangs: it accepts and does not answer", _CALM, (("server-pause", ""),)),
    "lost-connection": DemoScenario("the server refuses every connection", _CALM, (("server-cut", ""),)),
    "full-memory": DemoScenario("the server is at its memory limit", _CALM, (("server-full", ""),)),
}


RETRY_S = 0.5
# Ten batches a second look like a steady flow and cost a tenth of single messages.
_TICK_S = 0.1
_BOUNDS_CHECK_S = 2.0
# After a pause (the server was down, the machine slept) at most this much is caught up.
_CATCH_UP_S = 1.0


class Ticks:
    """A periodic tick; ``at_s`` is the time since the start, in seconds."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._began_s = self._last_s = self._clock()

    @property
    def at_s(self) -> float:
        """The time of the last tick."""
        return self._last_s - self._began_s

    async def wait(self) -> float:
        """Wait for the next tick; return the seconds since the last one, at most ``_CATCH_UP_S``."""
        await asyncio.sleep(_TICK_S)
        before_s, self._last_s = self._last_s, self._clock()
        return min(self._last_s - before_s, _CATCH_UP_S)


class Arrivals:
    """How many messages to send at each tick, by the pace, or by ``relief_per_s`` while the depth must fall.

    ``depth`` returns the current depth; it is called only if there are bounds.
    """

    def __init__(
        self, pace: VariedRate, bounds: Bounds | None, speed: float, depth: Callable[[], Awaitable[int]]
    ) -> None:
        self._pace = pace
        self._bounds = bounds
        self._speed = speed
        self._depth = depth
        self._ticks = Ticks()
        self._is_relieved = False
        self._next_check_s = 0.0
        self._owed = 0.0

    async def due(self, factor: float = 1.0) -> int:
        """Wait for the next tick; return how many messages to send, at ``factor`` times the rate."""
        passed_s = await self._ticks.wait()
        self._owed += await self._rate() * self._speed * passed_s * factor
        count = int(self._owed)
        self._owed -= count
        return count

    async def _rate(self) -> float:
        at_s, bounds = self._ticks.at_s, self._bounds
        if bounds is not None and at_s >= self._next_check_s:
            self._next_check_s = at_s + _BOUNDS_CHECK_S
            self._is_relieved = await self._depth() >= (bounds.low if self._is_relieved else bounds.high)
        return bounds.relief_per_s if bounds is not None and self._is_relieved else self._pace.rate(at_s * self._speed)

import gzip
import json
from datetime import datetime
from random import Random

import pytest

from rsmq_tui.cli.demo import scenarios

JSON_ONLY = [
    scenarios.order_body,
    scenarios.refund,
    scenarios.thumbnail_body,
    scenarios.invoice_body,
    scenarios.reminder_body,
    scenarios.delivery_body,
    scenarios.import_file_body,
]
MIXED = [scenarios.email_body, scenarios.webhook_body]


@pytest.mark.parametrize("body", [*JSON_ONLY, *MIXED, scenarios.cut_off_invoice_body])
def test_the_same_seed_gives_the_same_bodies(body: scenarios.Body) -> None:
    one, same, other = Random(1), Random(1), Random(2)
    first = [body(one) for _ in range(50)]
    assert first == [body(same) for _ in range(50)]
    assert first != [body(other) for _ in range(50)]
    assert max(map(len, first)) < 1024


@pytest.mark.parametrize("body", JSON_ONLY)
def test_bodies_are_json_objects_with_a_type(body: scenarios.Body) -> None:
    rng = Random(1)
    for _ in range(50):
        made = body(rng)
        assert scenarios.is_readable_json(made)
        assert json.loads(made)["type"]


def test_a_body_can_tell_when_it_was_made() -> None:
    made = json.loads(scenarios.created(scenarios.delivery_body(Random(1)), 1_795_000_000_042))
    assert datetime.fromisoformat(made["created"]).timestamp() == 1_795_000_000.042
    assert made["created"].endswith("Z")
    assert {name: value for name, value in made.items() if name != "created"} == json.loads(
        scenarios.delivery_body(Random(1))
    )


def test_an_order_adds_up() -> None:
    rng = Random(1)
    orders = [json.loads(scenarios.order_body(rng)) for _ in range(50)]
    assert {made["type"] for made in orders} == {"order", "refund"}
    for made in orders:
        if made["type"] == "order":
            assert made["total_cents"] == sum(item["quantity"] * item["unit_cents"] for item in made["items"])


def test_no_consumer_can_read_a_cut_off_invoice() -> None:
    rng = Random(1)
    assert not any(scenarios.is_readable_json(scenarios.cut_off_invoice_body(rng)) for _ in range(50))


@pytest.mark.parametrize("body", MIXED)
def test_some_bodies_are_text_binary_or_empty(body: scenarios.Body) -> None:
    rng = Random(1)
    kinds = set()
    for _ in range(200):
        made = body(rng)
        if not made:
            kinds.add("empty")
        elif scenarios.is_readable_json(made):
            kinds.add("json")
        else:
            kinds.add("text" if made.isascii() or b"Subject" in made else "binary")
    assert kinds == {"empty", "json", "text", "binary"}


def test_compressed_emails_can_be_decompressed() -> None:
    rng = Random(1)
    compressed = [made for made in (scenarios.email_body(rng) for _ in range(200)) if made.startswith(b"\x1f\x8b")]
    assert compressed
    assert all(json.loads(gzip.decompress(made))["type"] == "email" for made in compressed)

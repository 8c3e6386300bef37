"""The example files: readable, and about nothing that the exporter does not really expose."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import yaml

from rsmq_tui.monitor import Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.protocol import Rsmq
from rsmq_tui.web.exporter.server import ALERT_RULES, DASHBOARD, read_example
from tests.web.exporter.scraping import exporting

# What may stand in our PromQL besides names of series and labels.
WORDS = {
    *("sum", "max", "count", "rate", "increase", "deriv", "absent", "clamp_min", "vector", "label_values"),
    *("by", "without", "on", "ignoring", "and", "or", "unless"),
}
GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
SERIES = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")

RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(read_example(ALERT_RULES))["groups"] for rule in group["rules"]
]
BOARD: dict[str, Any] = json.loads(read_example(DASHBOARD))
VARIABLES: list[dict[str, Any]] = BOARD["templating"]["list"]


def targets() -> Iterator[tuple[dict[str, Any], str]]:
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield target, target["expr"]


QUERIES = [variable["query"]["query"] for variable in VARIABLES if variable["type"] == "query"]
EXPRESSIONS = [*(rule["expr"] for rule in RULES), *(expression for _, expression in targets()), *QUERIES]


@pytest.fixture
async def exposed(redis_url: str, client: redis.Redis) -> dict[str, set[str]]:
    """The labels of every series that an exporter has, by name."""
    Rsmq(client).create_queue("orders")
    Rsmq(client).send_message("orders", "x")
    client.lpush("queue:mail", "x")
    found: dict[str, set[str]] = {}
    async with exporting(redis_url, lists=("queue:mail",), expected=Expected(("orders", "queue:mail"))) as exporter:
        for sample in (await exporter.get()).samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def used(expression: str) -> tuple[set[str], dict[str, set[str]]]:
    """The series that an expression names, and the labels that it uses: of each series, and, as ``""``, of any."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    bare = re.sub(r"\[[^\]]*\]", "", bare)
    labels: dict[str, set[str]] = {"": set()}
    for name, inside in SERIES.findall(bare):
        labels.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inside))
    for inside in GROUPING.findall(bare):
        labels[""].update(re.findall(r"\w+", inside))
    if asked := re.fullmatch(r"label_values\((.*),\s*(\w+)\)", bare):
        labels[""].add(asked[2])
        bare = asked[1]
    bare = re.sub(r"\{[^}]*\}", "", GROUPING.sub("", bare))
    return set(re.findall(r"[a-zA-Z_:][\w:]*", bare)) - WORDS, labels


def test_expressions_are_read_as_they_are_written() -> None:
    series, labels = used('sum by (kind) (rate(a_total{ns=~"$ns", kind!="x{y"}[5m])) > 3 and on (ns, queue) b == 1')

    assert series == {"a_total", "b"}
    assert labels == {"": {"kind", "ns", "queue"}, "a_total": {"ns", "kind"}}


def test_every_name_and_label_is_exposed(exposed: dict[str, set[str]]) -> None:
    for expression in EXPRESSIONS:
        series, labels = used(expression)

        assert series, expression
        assert series <= exposed.keys(), expression
        for name, wanted in labels.items():
            known = exposed[name] if name else set().union(*(exposed[each] for each in series))
            assert wanted <= known, expression


def test_every_verdict_that_is_asked_for_is_one() -> None:
    asked = {
        verdict
        for each in EXPRESSIONS
        for verdicts in re.findall(r'\bverdict!?[=~]~?"([\w|]+)"', each)
        for verdict in verdicts.split("|")
    }

    assert {"broken", "stalled", "growing", "watching", "ok"} <= asked
    assert asked <= set(Verdict)


class TestRules:
    def test_each_says_what_it_is_about(self) -> None:
        assert len({rule["alert"] for rule in RULES}) == len(RULES) == 11
        for rule in RULES:
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert set(rule["annotations"]) == {"summary", "description"}
            assert re.fullmatch(r"\d+m", rule.get("for", "0m"))

    def test_none_is_about_a_queue_whose_trouble_is_expected(self) -> None:
        of_queues = [rule["expr"] for rule in RULES if "rsmq_queue_" in rule["expr"]]

        assert len(of_queues) == 6
        # All other labels of the two series are the same.
        for expression in of_queues:
            unless = "unless ignoring (verdict)" if "{verdict=" in expression else "unless"
            assert expression.endswith(f" {unless} rsmq_queue_expected")

    def test_their_words_use_labels_that_they_have(self, exposed: dict[str, set[str]]) -> None:
        for rule in RULES:
            text = " ".join(rule["annotations"].values())
            templates = re.findall(r"\{\{(.*?)\}\}", text)
            wanted = set(re.findall(r"\$labels\.(\w+)", text))
            series, _ = used(rule["expr"])

            assert all(re.fullmatch(r" \$(labels\.\w+|value( \| humanize(Duration)?)?) ", each) for each in templates)
            # What is absent has no labels.
            has = set() if rule["expr"].startswith("absent(") else set.intersection(*(exposed[name] for name in series))
            assert wanted <= has, rule["alert"]


class TestDashboard:
    def test_it_can_be_imported_anywhere(self) -> None:
        sources = [panel["datasource"] for panel in BOARD["panels"]]
        sources += [target["datasource"] for target, _ in targets()]
        sources += [variable["datasource"] for variable in VARIABLES if variable["type"] == "query"]

        assert [variable["name"] for variable in VARIABLES] == ["datasource", "server", "ns", "queue"]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
        assert "id" not in BOARD

    def test_every_panel_follows_the_variables(self) -> None:
        for _, expression in targets():
            for name, inside in SERIES.findall(expression):
                wanted = ["server", "ns", *(["queue"] if name.startswith("rsmq_queue_") else [])]
                assert all(f'{label}=~"${label}"' in inside for label in wanted), expression

    def test_panels_are_whole_and_do_not_overlap(self) -> None:
        panels = BOARD["panels"]
        taken = [
            (x, y)
            for at in (panel["gridPos"] for panel in panels)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        ]

        assert len(set(taken)) == len(taken)
        assert max(x for x, _ in taken) < 24
        assert len({panel["id"] for panel in panels}) == len(panels)
        assert all(panel["title"] and panel["description"] for panel in panels)

    def test_legends_use_labels_that_there_are(self, exposed: dict[str, set[str]]) -> None:
        for target, expression in targets():
            series, labels = used(expression)
            known = labels[""] or set.intersection(*(exposed[name] for name in series))
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= known

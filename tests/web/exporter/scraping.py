"""Running exporters, and scraping them as Prometheus does: over HTTP, read with the client library's own parsers."""

import asyncio
import http.client
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from rsmq_tui.monitor import RsmqPoller, Thresholds
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.protocol.kinds import LIST
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.web.exporter.poller import Reading, Target, TargetPoller, TargetPollers
from rsmq_tui.web.exporter.server import MetricsServer, serving
from tests.waiting import SECONDS_MAX

# Longer than any test: nothing is polled by itself.
NEVER_S = 1e6
# The loop's own has too few threads to scrape ten times at once.
_SCRAPERS = ThreadPoolExecutor(16)


@dataclass(frozen=True)
class Answer:
    """What came back from one request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def families(self) -> list[Metric]:
        if self.headers["Content-Type"].startswith("application/openmetrics-text"):
            return list(openmetrics.text_string_to_metric_families(self.text))
        return list(text_string_to_metric_families(self.text))

    @property
    def samples(self) -> list[Sample]:
        return [sample for family in self.families for sample in family.samples]

    def values(self, name: str, **labels: str) -> list[float]:
        """The values of all series with that name and, among others, these labels."""
        return [
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """The value of the only such series."""
        (value,) = self.values(name, **labels)
        return value

    def verdicts(self) -> dict[str, str]:
        """The one verdict of each queue."""
        held = [sample.labels for sample in self.samples if sample.name == "rsmq_queue_verdict" and sample.value]
        assert len({labels["queue"] for labels in held}) == len(held)
        return {labels["queue"]: labels["verdict"] for labels in held}


class CountingPoller(TargetPoller):
    """Counts the scrapes that it was asked for."""

    scrapes = 0

    async def scrape(self, *, max_age_s: float, patience_s: float) -> Reading:
        self.scrapes += 1
        return await super().scrape(max_age_s=max_age_s, patience_s=patience_s)


@dataclass
class Exporter:
    """A running exporter."""

    server: MetricsServer
    pollers: tuple[CountingPoller, ...]

    async def get(self, path: str = "/metrics", method: str = "GET", **headers: str) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_SCRAPERS, ask, self.server.url, path, method, headers)

    async def until(self, condition: Callable[[Answer], bool], path: str = "/metrics") -> Answer:
        """Scrape until that is true."""
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                answer = await self.get(path)
                if condition(answer):
                    return answer


def ask(url: str, path: str = "/metrics", method: str = "GET", headers: dict[str, str] | None = None) -> Answer:
    """Make one request, on a connection of its own; ``_`` in a header's name is a hyphen."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SECONDS_MAX)
    try:
        named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        connection.request(method, path, headers=named)
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.headers), answer.read())
    finally:
        connection.close()


@asynccontextmanager
async def exporting(
    *urls: str,
    namespaces: tuple[str, ...] = ("rsmq",),
    lists: tuple[str, ...] = (),
    interval_s: float = NEVER_S,
    max_age_s: float = 0.0,
    patience_s: float = SECONDS_MAX,
    timeout_s: float = SECONDS_MAX,
    thresholds: Thresholds | None = None,
    expected: Expected | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Exporter]:
    """Run an exporter of these servers that polls when it is scraped, unless told otherwise; the first is `s0`, …"""
    pollers = []
    for number, url in enumerate(urls):
        for ns in namespaces:
            poller = RsmqPoller(RsmqReader(url, ns, timeout_s=timeout_s), thresholds=thresholds, clock=clock)
            target = Target(f"s{number}", poller.reader.label, ns, expected=expected or Expected())
            pollers.append(CountingPoller(target, poller, interval_s=interval_s, clock=clock))
        if lists:
            reader = ListReader(url, ListNames(), lists, timeout_s=timeout_s)
            list_poller = ListPoller(reader, thresholds=thresholds, clock=clock)
            target = Target(f"s{number}", reader.label, LIST.ns, LIST.name, expected or Expected())
            pollers.append(CountingPoller(target, list_poller, interval_s=interval_s, clock=clock))
    server = MetricsServer("127.0.0.1", 0)
    async with serving(server, TargetPollers(tuple(pollers), max_age_s=max_age_s, patience_s=patience_s)):
        yield Exporter(server, tuple(pollers))

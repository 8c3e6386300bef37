"""The pages of the history screen: what each lists, and why it may be empty."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from rsmq_tui.history.analysis.values import AGE, Episode, QueueRef
from rsmq_tui.monitor import Verdict
from rsmq_tui.monitor.wording import compact
from rsmq_tui.tui.past_columns import (
    ADVICE_COLUMNS,
    ANOMALY_COLUMNS,
    EPISODE_COLUMNS,
    FORECAST_COLUMNS,
    POISON_COLUMNS,
    QUEUE_COLUMNS,
    QueueRow,
    rank,
)
from rsmq_tui.tui.past_loading import Lists
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column

CHARTED = ("depth", AGE, "arrivals_s", "deletes_s", "receives_s", "redeliveries_s")
HEAT = "heat"
_INVENTORIES = "this page needs message inventories: rsmq-tui record --messages 5m"


@dataclass(frozen=True, slots=True)
class Page:
    """One page. Of each row, ``ref`` names the queue, ``at_ms`` a moment to replay, ``told`` what is said of it."""

    id: str
    title: str
    columns: tuple[Column[Any, Any], ...] = ()
    rows: Callable[[Lists], Sequence[Any]] = lambda _: ()
    count: Callable[[Lists], int] = lambda _: 0
    ref: Callable[[Any], QueueRef | None] = lambda row: row.ref
    at_ms: Callable[[Any], int | None] = lambda _: None
    told: Callable[[Any], str] = lambda _: ""
    empty: str = ""


def queue_rows(lists: Lists) -> list[QueueRow]:
    """Return the queues, those first that were longest in the worst trouble."""
    of_queue: dict[QueueRef, list[Episode]] = {}
    for episode in lists.episodes:
        if episode.ref is not None:
            of_queue.setdefault(episode.ref, []).append(episode)
    rows = []
    for facts in lists.queues:
        episodes = of_queue.get(facts.ref, [])
        worst = min((episode.verdict for episode in episodes), key=rank, default=Verdict.OK.value)
        trouble_ms = sum(
            episode.length_ms if lists.span is None else episode.within(lists.span) for episode in episodes
        )
        rows.append(QueueRow(facts, worst, len(episodes), trouble_ms))
    rows.sort(key=lambda row: (rank(row.worst), -row.trouble_ms, -(row.facts.peak_depth or 0), row.facts.ref.queue))
    return rows


PAGES = (
    Page(
        "queues",
        "Queues",
        QUEUE_COLUMNS,
        queue_rows,
        lambda lists: len(lists.queues),
        ref=lambda row: row.facts.ref,
        empty="The analysis contains no queues.",
    ),
    Page(HEAT, "Heat map", empty="No data for this time."),
    Page(
        "episodes",
        "Episodes",
        EPISODE_COLUMNS,
        lambda lists: lists.episodes[::-1],
        lambda lists: len(lists.episodes),
        at_ms=lambda row: row.start_ms,
        told=lambda row: row.cause,
        empty="No queue had a problem in this time.",
    ),
    Page(
        "poison",
        "Poison",
        POISON_COLUMNS,
        lambda lists: lists.poison,
        lambda lists: len(lists.poison),
        at_ms=lambda row: row.first_seen_ms,
        told=lambda row: row.id,
        empty=f"No poison messages in this time; {_INVENTORIES}.",
    ),
    Page(
        "advice",
        "Advice",
        ADVICE_COLUMNS,
        lambda lists: lists.advice,
        lambda lists: len(lists.advice),
        told=lambda row: row.told,
        empty=f"No advice on visibility timeouts; {_INVENTORIES}.",
    ),
    Page(
        "forecasts",
        "Forecasts",
        FORECAST_COLUMNS,
        lambda lists: lists.forecasts,
        lambda lists: len(lists.forecasts),
        told=lambda row: row.told,
        empty="No forecasts: they need at least one day of history.",
    ),
    Page(
        "unusual",
        "Unusual hours",
        ANOMALY_COLUMNS,
        lambda lists: lists.anomalies,
        lambda lists: len(lists.anomalies),
        at_ms=lambda row: row.bucket_ms,
        empty="No hour of this time was unusual. A baseline needs some weeks of history.",
    ),
)


def key_of(page: Page, row: Any) -> str:
    """Return what tells a row from the others of its page."""
    if page.id == "queues":
        return repr(row.facts.ref)
    parts = (getattr(row, name, None) for name in ("place", "queue", "ref", "verdict", "start_ms", "id", "metric"))
    return repr((*parts, getattr(row, "bucket_ms", None)))


def tab_pieces(chosen: Page, lists: Lists | None, told: Sequence[str], width: int) -> list[Piece]:
    """Write the pages with their numbers, and what is told of the chosen one.

    Where not all fit, the chosen one says which of them it is.
    """
    numbers = {} if lists is None else {page.id: page.count(lists) for page in PAGES if page.id != HEAT}
    words = [f"{page.title} {compact(numbers[page.id])}" if page.id in numbers else page.title for page in PAGES]
    pieces: list[Piece] = [(" ", "")]
    for page, text in zip(PAGES, words, strict=True):
        pieces.append((f"[ {text} ]", "strong") if page is chosen else (f"  {text}  ", "muted"))
    room = width - sum(map(cell_len, told))
    if sum(len(text) for text, _ in pieces) > room:
        place = PAGES.index(chosen)
        pieces = [(f" [ {words[place]} ]", "strong"), (f" {place + 1}/{len(PAGES)}", "muted")]
    return [*pieces, *((text, "muted") for text in told)]

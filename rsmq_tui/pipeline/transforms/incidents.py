"""Incidents: the episodes of a queue that belong together; see ``rsmq_tui.history.analysis.incidents``."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from rsmq_tui.history.analysis.incidents import incidents_of
from rsmq_tui.history.analysis.values import Episode
from rsmq_tui.history.names import Place, read_name, stored_name
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.pipeline.state import Settings

_FIELDS = [field.name for field in fields(Episode) if field.name != "place"]


def incidents(episodes: Iterable[Mapping[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    """Return the rows of the table ``incidents``, from those of ``episodes``.

    It is computed by this process, by the rule that replays use: there are few episodes beside samples.
    """
    expected = {profile: Expected.of_lists(*lists) for profile, lists in settings.expected.items()}
    found = []
    for row in episodes:
        place = Place(read_name(row["profile"]), row["server"], read_name(row["ns"]))
        values = {name: row[name] for name in _FIELDS}
        values["queue"] = None if row["queue"] is None else read_name(row["queue"])
        found.append(Episode(place=place, **values))
    rows = []
    for incident in incidents_of(found, expected):
        place = incident.place
        names = {"profile": stored_name(place.profile), "server": place.server, "ns": stored_name(place.ns)}
        queue = None if incident.queue is None else stored_name(incident.queue)
        rows.append(asdict(incident) | names | {"queue": queue, "verdicts": list(incident.verdicts)})
    return rows

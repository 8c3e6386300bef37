"""What recorded places are called on the screen."""

from collections.abc import Iterable, Mapping

from rsmq_tui.history.place import Place


def labels_of(places: Iterable[Place], known: Mapping[Place, str] | None = None) -> dict[Place, str]:
    """Return what each place is called on the screen, as the dashboard does; nothing where there is only one.

    Those that are ``known`` keep what they are called, unless it was nothing.
    """
    places = list(places)
    if len(places) == 1:
        return {places[0]: ""}
    kept = {place: label for place, label in (known or {}).items() if label}
    new = [place for place in places if place not in kept]
    taken = set(kept.values())
    for label in (_by_name, _by_name_and_ns, _in_full):
        labels = {place: label(place) for place in new}
        if len(taken.union(labels.values())) == len(taken) + len(new):
            return kept | labels
    return kept | {place: f"{_in_full(place)} {number}" for number, place in enumerate(new, len(kept))}


def _by_name(place: Place) -> str:
    return place.profile or place.server


def _by_name_and_ns(place: Place) -> str:
    return f"{_by_name(place)} {place.ns}"


def _in_full(place: Place) -> str:
    return f"{place.profile} {place.server} {place.ns}".strip()

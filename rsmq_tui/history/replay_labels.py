"""What recorded places are called on the screen."""

from collections.abc import Iterable

from rsmq_tui.history.place import Place


def labels_of(places: Iterable[Place]) -> dict[Place, str]:
    """Return what each place is called on the screen, as the dashboard does; nothing where there is only one."""
    places = list(places)
    if len(places) == 1:
        return {places[0]: ""}
    for label in (_by_name, _by_name_and_ns, _in_full):
        labels = {place: label(place) for place in places}
        if len(set(labels.values())) == len(places):
            return labels
    return {place: f"{_in_full(place)} {number}" for number, place in enumerate(places)}


def _by_name(place: Place) -> str:
    return place.profile or place.server


def _by_name_and_ns(place: Place) -> str:
    return f"{_by_name(place)} {place.ns}"


def _in_full(place: Place) -> str:
    return f"{place.profile} {place.server} {place.ns}".strip()

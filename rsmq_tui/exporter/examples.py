"""The example files that come with the exporter."""

from importlib.resources import files

ALERT_RULES = "alert_rules.yml"
DASHBOARD = "grafana_dashboard.json"


def read_example(name: str) -> str:
    """Return the text of one of the files; it is ASCII."""
    return files("rsmq_tui.exporter").joinpath(name).read_text("ascii")

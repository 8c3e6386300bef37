"""The pages for users: Markdown, one topic each, shown by `rsmq-tui help` and by the dashboard.

alerts.md      Get a message about trouble, unless it is known or expected.
audit.md       Find inconsistent keys, and fix them.
dashboard.md   Find your way on the screens, and choose what they show.
demo.md        Learn and teach what queues do, on a server of your own.
filters.md     Find messages in a queue, or in all queues.
history.md     Look at months of queues: incidents, charts, advice and forecasts.
keys.md        Look up any key of the dashboard, and choose your own.
library.md     Use RSMQ queues and list queues from Python, and in Spark.
listserver.md  Test producers and consumers of lists against an in-memory server.
lists.md       Watch and change Redis Lists that serve as queues.
messages.md    Look at, send, change and export messages in scripts.
monitoring.md  Use Nagios, Prometheus and Grafana, and read the log of events.
numbers.md     Know what the numbers mean, and how certain they are.
output.md      The JSON that commands print, and their exit statuses.
pipeline.md    Analyse months of recordings with Spark.
read-only.md   Watch a server without the right to change it.
recording.md   Record the state of all queues, and replay any moment.
report.md      Write post-mortems, and see whether objectives were met.
rsmqctl.md     Use queues in scripts with a drop-in for keithsharp/rsmqctl.
scale.md       What recording and analysing large installations takes.
servers.md     Name your servers, and connect with TLS, Sentinel or Cluster.
sql.md         Query recorded data with SQL, and read it with other programs.
themes.md      Choose colours; use small or plain terminals, or a screen reader.
verdicts.md    See which queue is in trouble and why, and what to do first.
web.md         Serve the dashboard to browsers, and link to what it shows.
"""

import re
from pathlib import Path

_FOLDER = Path(__file__).parent
# Pictures are for readers on the web.
_PICTURE = re.compile(r"^!\[.*\]\(.*\)\n\n?", re.MULTILINE)


def topics() -> dict[str, str]:
    """Return the topics in alphabetical order, each with the sentence that its page begins with."""
    return {path.stem: _text(path).split("\n\n", 2)[1] for path in sorted(_FOLDER.glob("*.md"))}


def page(topic: str) -> str:
    """Return the page of one of the topics as Markdown, without pictures."""
    return _PICTURE.sub("", _text(_FOLDER / f"{topic}.md"))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")

"""A terminal dashboard and a command line for message queues on Redis. Start with ARCHITECTURE.md.

ARCHITECTURE.md  the words, the layers, seven journeys through the files, and recipes for common changes
__main__         `python -m rsmq_tui` is `rsmq-tui`
alerts           alerts: rules that are applied to polls, and the messages that they send
charts           charts as styled text, drawn from numbers
cli              the commands `rsmq-tui` and `rsmqctl`
decoding         compressed and encoded bodies, decoded, and encoded again
docs             the pages for users, one topic each, which `rsmq-tui help TOPIC` prints
embedded         a private Valkey server and the demo's workload
events           a log of events: what happened to queues and servers between two polls
exporter         Prometheus metrics over HTTP
files            small files read with a limit, files written as a whole, file locks, the user's folders
heap             memory that was used for a moment, given back to the system
history          what polls said, recorded as Parquet files, and replayed
listserver       a server for queues on lists, in memory; its time and faults are in the hand of a test
monitor          polls, verdicts, searches and audits; only reads
pipeline         Spark: the data source `rsmq`, and the tables that are computed from a history
profiles         the configuration file and the servers that it names
protocol         RSMQ queues and list queues over redis-py; the only importer of redis
triage           every change of a queue: preview, guard, journal, undo
tui              the Textual app: screens, widgets, keys and themes
web              the dashboard in a browser: HTTP server, sessions, one poller for all of them
"""

__version__ = "0.2.0"

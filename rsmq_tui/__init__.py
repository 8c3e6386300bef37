"""A terminal dashboard and a command line for message queues on Redis. Start with ARCHITECTURE.md.

ARCHITECTURE.md  the words, the layers, seven journeys through the files, and recipes for common changes
__main__         `python -m rsmq_tui` is `rsmq-tui`
charts           charts as styled text, drawn from numbers
cli              the commands `rsmq-tui` and `rsmqctl`; the demo's server and workload
docs             the pages for users, one topic each, which `rsmq-tui help TOPIC` prints
events           a log of events: what happened to queues and servers between two polls; alerts and their channels
files            small files read with a limit, files written as a whole, file locks, the user's folders
heap             little free memory kept by programs that run for days
history          polls recorded as Parquet files, and replayed
listserver       a server for queues on lists, in memory; tests control its clock and inject faults
local_clock      the clock of this machine
monitor          polls, verdicts, messages and their bodies, searches and audits; only reads
pipeline         Spark: the data source `rsmq`, and the tables that are computed from a history
profiles         the configuration file and the servers that it names
protocol         RSMQ queues and list queues over redis-py; the only importer of redis
triage           every change of a queue: preview, guard, journal, undo
sqlite_file      a SQLite file that several processes share
tui              the Textual app: screens, widgets, keys and themes
web              what is served over HTTP: the dashboard in a browser, and metrics for Prometheus
"""

__version__ = "0.2.0"

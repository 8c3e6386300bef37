"""The commands of `rsmq-tui`, each imported when it is called.

- audit: `rsmq-tui audit`: what does not fit together in the keys of queues, and mending it.
- check: `rsmq-tui check`: queues checked once, printed as monitoring systems read it.
- completion: `rsmq-tui completion`: scripts for shells, and the names that a shell completes.
- doctor: `rsmq-tui doctor`: whether everything works that the dashboard needs, and what to do about it.
- exporter: `rsmq-tui exporter`: Prometheus metrics over HTTP until it is ended.
- history: `rsmq-tui history`: the screen of the past alone, without any server.
- journal: `rsmq-tui journal`: the changes that were made from here, and what is kept of each.
- messages: `rsmq-tui messages`: read, change and export the messages of a queue.
- profiles: `rsmq-tui profiles`: the servers that the configuration file names, and an example of such a file.
- queues: `rsmq-tui queues`: the queues of a namespace in one look, and making, changing, emptying and removing them.
- record: `rsmq-tui record`: writes the state of all queues down until it is ended.
- replay: `rsmq-tui replay`: the dashboard on recorded time.
- report: `rsmq-tui report`: writes a post-mortem of a range of time into a file, whole or not at all.
- snapshot: `rsmq-tui snapshot`: one poll, as JSON.
- undo: `rsmq-tui undo`: take back what a change did.
"""

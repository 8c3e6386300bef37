"""The commands of `rsmq-tui`. Each is imported when it is called.

audit       `rsmq-tui audit`: inconsistent keys, and fixing them
check       `rsmq-tui check`: one check of queues, as a plugin of a monitoring system
completion  `rsmq-tui completion`: scripts for shells, and the names that a shell completes
doctor      `rsmq-tui doctor`: whether a server has all that the dashboard needs
exporter    `rsmq-tui exporter`: Prometheus metrics over HTTP
history     `rsmq-tui history`: the history screen alone, without a server
journal     `rsmq-tui journal`: the changes in the journal
messages    `rsmq-tui messages`: read, search, change and export messages
profiles    `rsmq-tui profiles`: the profiles, and an example of a configuration file
queues      `rsmq-tui queues`: list, create, change, purge and delete queues
record      `rsmq-tui record`: record every poll until it is stopped
replay      `rsmq-tui replay`: the dashboard on a history
report      `rsmq-tui report`: a post-mortem of a time range, as HTML or Markdown
snapshot    `rsmq-tui snapshot`: one poll, as JSON
undo        `rsmq-tui undo`: undo a change
"""

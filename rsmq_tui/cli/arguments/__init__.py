"""The arguments of the commands of `rsmq-tui`, added to a parser when its command is used.

changes  the arguments of `messages`, `queues`, `undo`, `journal` and `audit`
history  the arguments of `record`, `replay`, `history`, `report` and `pipeline`
tools    the arguments of `check`, `doctor`, `exporter`, `completion`, `profiles` and `help`
"""

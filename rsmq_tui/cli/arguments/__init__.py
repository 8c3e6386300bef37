"""The arguments of the commands of `rsmq-tui`.

- changes: The arguments of `rsmq-tui messages`, `queues`, `undo`, `journal` and `audit`.
- history: The arguments of `rsmq-tui record`, `replay`, `history`, `report` and `pipeline`.
- tools: The arguments of `rsmq-tui check`, `doctor`, `exporter`, `completion`, `profiles` and `help`.
"""

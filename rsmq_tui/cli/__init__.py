"""The commands `rsmq-tui` and `rsmqctl`: arguments in, words out, no logic.

- arguments: The arguments of the commands of `rsmq-tui`.
- changes: Making a change: preview, --yes, progress and report; its target, its service and its journal.
- commands: The commands of `rsmq-tui`, each imported when it is called.
- dashboard: The dashboard on servers that are there, or will be.
- demo: `rsmq-tui demo`: a server of its own, queues in all kinds of trouble, and the dashboard on them.
- errors: The error of the commands, and how a defect of the program is told.
- help: `rsmq-tui help`: the pages for users, rendered for a terminal or as Markdown.
- interrupts: Ctrl+C: the first asks for an orderly end, each further one for a quicker end.
- main: `rsmq-tui`: the dashboard, and what it does without a screen.
- output: Printing: words on a terminal, lines of JSON anywhere else, and nothing that a terminal could obey.
- parsing: Parsers of commands, and default values.
- pipeline: `rsmq-tui pipeline`: what is done with Spark. Each of its commands has a module of its own.
- rsmqctl: `rsmqctl`, a program with the options of the original of that name.
- servers: The servers that a command is to read.
"""

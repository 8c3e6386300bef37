"""The commands `rsmq-tui` and `rsmqctl`: they parse arguments, call the layers below, and print.

changes      one change on the command line: preview, --yes, progress, report, and its journal
commands     the table of the commands of `rsmq-tui`, and a module for each, imported when it is called
dashboard    `rsmq-tui` without a command: the dashboard
demo         the server of the demo and of tests, the workload, and what the user controls of both
errors       the error of the commands, and exit statuses
filters      the option --filter: its help, and the filter that it gives
interrupts   signals: the first Ctrl+C ends in an orderly way, each further one more quickly
main         the entry point of `rsmq-tui`
options      options that several commands share
output       printing: text on a terminal, JSON lines elsewhere, without terminal escapes
parsing      commands on click, and readers of values such as 10m
places       what commands read, check and change of each kind of queue
plain        `rsmq-tui --plain`: the overview as lines of text
program      running a program: completion, errors, and its exit status; what redis-py need not import
queue_names  from the names that users write to the queues of a place
rsmqctl      `rsmqctl`, compatible with the program of that name by Keith Sharp
servers      from arguments and profiles to the servers that a command reads
"""

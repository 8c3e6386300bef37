"""The commands `rsmq-tui` and `rsmqctl`: they parse arguments, call the layers below, and print.

arguments   the arguments of the commands, one module for each group of commands
changes     one change on the command line: preview, --yes, progress, report, and its journal
commands    one module for each command of `rsmq-tui`, imported when the command is called
dashboard   `rsmq-tui` without a command: the dashboard
demo        `rsmq-tui demo`: the dashboard on a private server with a workload
errors      the error of the commands, and the message for a defect of the program
help        `rsmq-tui help`: the pages for users
interrupts  Ctrl+C: the first ends in an orderly way, each further one more quickly
main        the entry point of `rsmq-tui`: its parser, and its exit statuses
output      printing: text on a terminal, JSON lines elsewhere, without terminal escapes
parsing     the argument parsers, readers of values such as 10m, and defaults
pipeline    `rsmq-tui pipeline`: run and generate
rsmqctl     `rsmqctl`, compatible with the program of that name by Keith Sharp
servers     from arguments and profiles to the servers that a command reads
"""

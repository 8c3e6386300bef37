"""Alerts: the rules of the configuration file, applied to polls, and the messages that they send.

channels  sends a message: by bell, notification of the terminal, command, or a service that apprise knows
message   a message as an immutable value: its sentence and its JSON
rules     decides from successive polls when a rule alerts, for which queues, and when that is over
store     the alerts that were sent, kept across restarts and shared by programs
runner    the threads of a dashboard or `rsmq-tui watch`: applies the rules, and sends with retries
"""

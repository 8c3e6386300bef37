"""Alerts: the rules of the configuration file, applied to polls, and the messages that they send.

channels   sends a message: by bell, notification of the terminal, command, or a service that apprise knows
checks     whether the condition of a rule holds for queues or a server
following  for how long the condition of a rule has held, and when that is reported, and its end
message    a message as an immutable value: its sentence and its JSON
rules      applies the rules to successive polls, and returns the messages
runner     the threads of a dashboard or `rsmq-tui watch`: applies the rules, and sends with retries
store      the alerts that were sent, kept across restarts and shared by programs
"""

"""Commands for monitoring.

check     `rsmq-tui check`: one check of queues, as a plugin of a monitoring system
events    `rsmq-tui events`: what happened to queues and servers
exporter  `rsmq-tui exporter`: Prometheus metrics over HTTP
known     `rsmq-tui known`: queues whose trouble somebody has acknowledged
watch     `rsmq-tui watch`: alerts, without a screen
"""

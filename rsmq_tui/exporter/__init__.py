"""The queues as Prometheus metrics, with alert rules and a dashboard that use them.

- metrics: The metrics: their names, units and labels.
- poller: Polling one namespace for scrapes: one poll at a time, shared by all who ask while it is under way.
- server: The exporter's HTTP server, and its answers.
"""

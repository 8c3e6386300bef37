"""Prometheus metrics of queues.

alert_rules.yml         alert rules for Prometheus, printed by `rsmq-tui exporter --print-rules`
grafana_dashboard.json  a dashboard for Grafana, printed by `rsmq-tui exporter --print-dashboard`
metrics                 the metrics: names, units and labels
poller                  polls one namespace; concurrent scrapes share a poll
server                  the HTTP server
"""

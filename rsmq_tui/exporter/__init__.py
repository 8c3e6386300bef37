"""The queues as Prometheus metrics, with alert rules and a dashboard that use them."""

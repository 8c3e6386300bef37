"""What is served over HTTP: the dashboard in a browser, with a process for each page, and metrics.

access    access control: a secret in the address, or a user and a password
exporter  metrics of queues for Prometheus, by `rsmq-tui exporter`; nothing else here is used for them
hub       polls each place once for all sessions, which get each poll as a difference from the last
page      the page: HTML, style and script
server    HTTP: the page, its files, and a WebSocket for each session
sessions  the process of a page
"""

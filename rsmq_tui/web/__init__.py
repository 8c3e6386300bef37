"""The dashboard in a browser: a server, and a process of this program for each page.

access    access control: a secret in the address, or a user and a password
hub       polls each place once for all sessions
page      the page: HTML, style and script
server    HTTP: the page, its files, and a WebSocket for each session
sessions  the process of a page
sharing   snapshots of one process for others, as differences
"""

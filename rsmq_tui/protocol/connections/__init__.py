"""Connections to servers, Sentinels and clusters.

- connect: Connections: how they are made, limited, counted and cancelled.
- pool: The connections to one address: one server's, or those of each node of a cluster.
- script_runner: Running operations and read-only scripts on redis-py's clients.
- topology: Sentinels and cluster nodes: which server to connect to.
"""

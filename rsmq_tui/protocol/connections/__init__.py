"""Connections to servers, Sentinels and clusters.

connect        makes connections: timeouts, reply limits, counted traffic, cancellation
pool           the connections to one address: one server, or each node of a cluster
script_runner  runs operations and read-only scripts on redis-py's clients
topology       Sentinels and cluster nodes: which server to connect to
"""

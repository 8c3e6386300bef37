"""Connections to servers, Sentinels and clusters.

command_runner  runs operations on redis-py's clients
connect         makes connections: timeouts, counted traffic, cancellation
pool            the connections to one address: one server, or each node of a cluster
reply_limits    limits the memory that a reply may take
script_runner   runs read-only scripts and plain commands on a server
topology        Sentinels and cluster nodes: which server to connect to
"""

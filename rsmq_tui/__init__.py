"""A terminal dashboard for message queues on Redis."""

__version__ = "0.2.0"

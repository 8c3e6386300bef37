"""List queues: queues that are Redis Lists, and the reliable pattern on them."""

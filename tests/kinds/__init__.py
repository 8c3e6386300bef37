"""A kind of queue that rsmq-tui does not know, added by one entry of the table of kinds."""

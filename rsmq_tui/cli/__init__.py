"""The commands `rsmq-tui` and `rsmqctl`: arguments in, words out, no logic."""

"""What holds where nothing was said; it is imported by every command, and imports nothing."""

DEFAULT_URL = "redis://localhost:6379"

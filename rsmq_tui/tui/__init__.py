"""The Textual app: screens, widgets, keys and themes. It knows snapshots, not servers."""

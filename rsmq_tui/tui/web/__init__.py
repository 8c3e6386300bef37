"""The dashboard in a browser, and links to what it shows.

driver  Textual's driver for a page, whose process ends when its server is gone
links   addresses of a queue, a filter and a moment of a replay
"""

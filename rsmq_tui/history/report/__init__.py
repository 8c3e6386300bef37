"""The report of a time range, for readers without a terminal.

html      one HTML page with its style sheet and SVG pictures
markdown  Markdown, with charts as text
words     the facts of a report, its sentences and its tables, for both formats
"""

"""The report of a time range, for readers without a terminal.

html      one HTML page with its style sheet and SVG pictures
markdown  Markdown, with charts as text
tables    the tables of a report, for both formats
words     the facts of a report, and its sentences
"""

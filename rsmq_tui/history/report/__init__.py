"""The report of a time range, for readers without a terminal.

html        one HTML page with its SVG pictures
markdown    Markdown, with charts as text
report.css  the style sheet of the HTML page, for screens and for print
words       the facts of a report, its sentences and its tables, for both formats
"""

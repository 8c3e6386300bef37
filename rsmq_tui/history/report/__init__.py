"""The report of a time range, for readers without a terminal, and the service levels.

facts       the data of a report: what is true of its range, and of nothing outside of it
html        one HTML page
markdown    Markdown, with charts as text
pictures    the SVG pictures of the page: lines, a timeline of incidents, a heat map
report.css  the style sheet of the page, for screens and for print
slo         service levels: how objectives were kept, error budgets and burn rates
tables      the tables of a report, for both formats and the command line
words       the sentences and the numbers of a report, for both formats
"""

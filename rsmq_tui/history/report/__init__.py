"""The report of a time range, for readers without a terminal, and the service levels.

facts       the data of a report: values that are true of its range only
html        one HTML page, with its SVG pictures: lines, a timeline of incidents, a heat map
markdown    Markdown, with charts as text
restarts    restarts and failovers of servers; queues that were lost in them, or created again
report.css  the style sheet of the page, for screens and for print
slo         service levels: how well objectives were met, error budgets and burn rates
tables      the tables of a report, for both formats and the command line
words       the sentences and the numbers of a report, for both formats
"""

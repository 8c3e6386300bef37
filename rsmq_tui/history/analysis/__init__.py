"""Reads an analysis: the tables that the pipeline computes from a history.

grafana_dashboard.json  a dashboard for Grafana, printed by `rsmq-tui sql --print-dashboard`
incidents               from episodes to incidents
reading                 queues, lines, heat maps, incidents and episodes, as values
schema                  the tables of an analysis, their columns, and the layout of files
sql                     SQL over an analysis, by DuckDB
tables                  the manifest, and reading tables by column and time
values                  the values that a reader returns
"""

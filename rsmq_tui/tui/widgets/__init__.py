"""The dashboard's widgets; each paints lines and repaints only the cells that changed.

- charts: Panels of charts, bars and sparklines.
- controls: Controls of dialogs: buttons, check boxes, inputs and text areas.
- filter_line: The line in which a filter is typed; below it, what is wrong with it and where.
- painted: The base of the dashboard's widgets: lines of styled cells, of which only those that changed are sent
  again.
- row_table: A table of any number of rows that paints only those in sight, and keeps its cursor on a row, not on a
  place.
- status_line: The line at the top of every screen, and what is said where there are no numbers.
- text_lines: Lines of text: plain, key hints, and the progress of a change.
- text_view: Scrollable text: lines made when they come into sight, and message bodies as lines.
"""

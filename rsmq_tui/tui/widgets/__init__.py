"""The dashboard's widgets. Each paints lines, and only the cells that changed are sent again.

charts       panels of charts, bars and sparklines
controls     buttons, check boxes, inputs and text areas
filter_line  the input of a filter, and its errors
painted      the base: compares painted lines with those on the screen
row_table    a table of any number of rows that paints only the visible ones
status_line  the line at the top of every screen
text_lines   single lines of text: key hints, progress of a change
text_view    scrollable text, and message bodies as lines
"""

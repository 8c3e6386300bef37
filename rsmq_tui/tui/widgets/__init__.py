"""The dashboard's widgets. Each paints lines, and only the cells that changed are sent again.

base_screen     the base of screens and dialogs: their first styles, and how they close
body_lines      bodies as lines of JSON, text or hex; the search in a body
body_view       a body of any size: decoded, folded, searched
charts          panels of charts, bars and sparklines
controls        dialogs, and their buttons, check boxes, inputs
lines           the lines of every screen: status, text, key hints, progress of a change
message_filter  the input of a filter of messages, in the language of filters
painted         the base: compares painted lines with those on the screen
pane            the pane beside or below a table, with the details of the row under the cursor
row_table       a table of any number of rows that paints only the visible ones
text_view       scrollable text
tour            the strip of a tour: its steps and its progress
word_filter     the base of both inputs, and the filter by words in the rows of a table
"""

"""A post-mortem of a range of time, for people without a terminal: what an analysis tells, as HTML or Markdown.

- html: A report as one HTML page, with its style sheet and its SVG pictures.
- markdown: A report as Markdown: sentences, tables and charts of text, for wikis and pull requests.
- tables: The tables of a report: titles and rows of words, harmless but not escaped, for whichever form they take.
- words: The facts of a report, and its sentences, harmless but not escaped.
"""

"""A post-mortem of a range of time, for people without a terminal: what an analysis tells, as HTML or Markdown."""

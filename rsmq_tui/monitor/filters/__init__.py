"""Filters: their language, matching and searching.

- json_paths: Places in JSON bodies: ``customer.id``, ``items[0].sku``, ``"odd key"[-1]``; no body makes any of this
  raise.
- language: The language of filters, the same on screens and on the command line.
- matching: Matching messages: terms, cheapest first, texts in bodies, and regexes in linear time.
- search: Searching a queue, and grouping what it contains.
"""

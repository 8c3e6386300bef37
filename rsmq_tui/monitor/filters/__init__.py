"""Filters of messages: language, matching, search and grouping.

json_paths  paths into JSON bodies: customer.id, items[0].sku; the time at a path
language    the filter language and its parser; what a server can check for a search in bodies
matching    whether a message matches; texts and regexes in linear time
search      searches a queue, and groups its messages
"""

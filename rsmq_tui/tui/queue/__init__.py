"""One queue and its messages.

- groups: Groups of messages: what a queue consists of.
- marks: Marks of messages, and the actions on those that are marked.
- message: One message whole: what is known of it, its body as JSON, text or hex, and the keys that change it.
- message_list: The table of a queue's messages: pages, search results, tabs and marks.
- screen: The screen of one queue: verdict, recent history and messages.
- search: Searches of a queue's messages, and the tabs that show them.
"""

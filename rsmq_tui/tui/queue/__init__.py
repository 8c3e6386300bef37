"""The screens of one queue and of one message.

clients       the dialog with the clients that work on a queue
marks         marked messages, and the actions on them
message       one message: its fields, and its body as JSON, text or hex
message_list  the table of messages: pages, search results, tabs and marks
outside       a body in a file, a pager or an editor
screen        one queue: verdict, recent history and messages; counts of messages in groups
search        searches, and the tabs that show them
"""

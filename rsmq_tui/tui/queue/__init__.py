"""The screens of one queue and of one message.

clients       the dialog with the clients that work on a queue
columns       the columns of tables of messages
groups        the dialog that counts messages in groups
life          the life of one message, from poll to poll
marks         marked messages, and the actions on them
message       one message: its fields, and its body as JSON, text or hex; and the pane that shows it
message_list  the table of messages: pages, search results, tabs and marks
outside       a body in a file, a pager or an editor
pager         which page is shown, which is requested, the next ones, and when to read again
pane          the charts of one queue, and the pane of the overview that shows them
positions     positions in a queue, as users type them: a number, a share, a time, an id
screen        one queue: verdict, recent history and messages
search        searches of messages, and their orders
tabs          the tabs of a queue's messages, and how many messages each has
"""

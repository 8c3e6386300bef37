"""Files that release 0.1 wrote, which every later version must read, replay, report and undo.

They are never regenerated: they hold what that code wrote, and not what the current code writes.

- ``history/``: five minutes of five RSMQ queues and three lists, polled every second, with inventories of messages;
  the server did not answer for 9 s.
- ``shown.json``: what a replay of it showed at five times: the places that were down, and columns of each queue.
- ``analysis/``: what the pipeline made of that history; only the files that are read, and the history's path was set.
- ``journal.sqlite``: 22 changes of RSMQ queues and of lists, version 3 of the file; ``who`` and ``host`` were set.
- ``server.json``: the server's keys ``before`` the first of these changes and ``after`` the last; bytes are Latin-1.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
BEGIN_MS, END_MS = 1_795_374_382_405, 1_795_374_681_718

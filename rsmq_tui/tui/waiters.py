"""Who waits on lists, asked for on demand: the server lists all of its clients for that."""

from rsmq_tui.monitor import PeekError, Source
from rsmq_tui.monitor.source import KnowsWaiters
from rsmq_tui.monitor.wording import plural, printable


async def told_waiters(source: Source) -> str:
    """Say how many consumers are blocked on lists of a server, or why that is not known."""
    if not isinstance(source, KnowsWaiters):
        return "only consumers of Redis lists can be blocked"
    try:
        waiting = await source.blocked()
    except PeekError as error:
        return printable(str(error), 200)
    return f"{plural(waiting, 'consumer')} blocked on lists of this server; Redis does not say which"

"""Fetching passwords while everything else goes on: whoever is asked for one may take long, or never answer."""

import asyncio
import threading
from concurrent.futures import Future

from rsmq_tui.protocol.address import Password

_lock = threading.Lock()
_under_way: dict[int, "Future[str]"] = {}


async def fetched(password: Password) -> str:
    """Return a password; whoever asks for the same one meanwhile waits for that fetch. It raises what the fetch raises.

    It is fetched in a thread of its own: asyncio's few would soon all wait, and with them DNS and the journal; and the
    program's end waits for those, but for this one it does not.
    """
    with _lock:
        future = _under_way.get(id(password))
        if future is None:
            future = _under_way[id(password)] = Future()
            # Now no cancel of one who waits ends it for the others.
            future.set_running_or_notify_cancel()
            thread = threading.Thread(target=_fetch, args=(password, future), name="password", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                del _under_way[id(password)]
                raise
    return await asyncio.wrap_future(future)


def _fetch(password: Password, future: "Future[str]") -> None:
    try:
        result = password()
    except BaseException as error:
        _forget(password)
        future.set_exception(error)
    else:
        _forget(password)
        future.set_result(result)


def _forget(password: Password) -> None:
    with _lock:
        del _under_way[id(password)]

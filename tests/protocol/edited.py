"""Guarded edits as tests make them: carried out and forgotten, or tried by a user who may not do all of it."""

from redis import Redis
from redis.exceptions import ResponseError

from rsmq_tui.protocol.editing import Batch
from rsmq_tui.protocol.rsmq.editor import RsmqEditor


async def applied(editor: RsmqEditor, batch: Batch | None) -> str:
    """Carry out a batch, and return its outcome; nothing of the call is left on the server."""
    assert batch is not None
    token = editor.new_token()
    outcome = await editor.apply(batch, token)
    await editor.forget([token])
    return outcome


async def applied_without(denied: str, editor: RsmqEditor, batch: Batch, client: Redis, url: str) -> str | None:
    """The same by a user who may use all commands but one; returns None if the server refused the batch."""
    client.acl_setuser("ann", enabled=True, passwords=["+secret"], keys="*", commands=["+@all", f"-{denied}"])
    ann = RsmqEditor(url.replace("://", "://ann:secret@"))
    token = ann.new_token()
    refused, outcome = None, None
    try:
        outcome = await ann.apply(batch, token)
    except ResponseError as error:
        refused = error
    await ann.aclose()
    if refused is not None:
        assert "permission" in str(refused)
        return None
    await editor.forget([token])
    return outcome

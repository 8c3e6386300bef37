"""Fixes what an audit found, with a preview."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from decimal import Decimal

from rsmq_tui.monitor.audit.findings import FindingKind
from rsmq_tui.monitor.audit.rsmq import AuditedPart, audit_fields, audit_messages, bad_attributes, condition_of
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import RawMessage, RsmqReader, leading_int, make_id, name_of, sent_ms
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, FieldBatch, FieldEdit, LooseBatch, LooseKind, MessageBatch
from rsmq_tui.protocol.rsmq.inspection import COUNTER_SUFFIXES, QueueLook
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.triage.actions import Fix
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.rsmq.plan import CHUNK_MESSAGES, DEFAULT_ATTRIBUTES, MOVE_MESSAGES, STRAY_BYTES, strays
from rsmq_tui.triage.scope import Preview, ScanCallback, ScanProgress

TOO_LONG = "too long for the journal: deleteMessage with its id removes it, without undo"
_TOTALS = (b"totalsent", b"totalrecv")

# The kinds that are fixed in one walk. Walks run one after the other, because each changes what the next compares.
WALKS = (
    frozenset({FindingKind.DANGLING, FindingKind.BAD_RC, FindingKind.NO_FR}),
    frozenset({FindingKind.SECONDS, FindingKind.MICROSECONDS, FindingKind.NEVER}),
    frozenset({FindingKind.FOREIGN_ID}),
)
LOOSE = frozenset({FindingKind.LEAKED, FindingKind.STRAY})


async def prepare_fix(editor: RsmqEditor, reader: RsmqReader, action: Fix) -> AsyncGenerator[Step, None]:
    """Yield the batches that fix one queue; raises what the editor and the reader raise."""
    queue, kinds = action.queue, action.kinds
    (look,) = await reader.inspection.looks([queue])
    now = condition_of(look)
    for kind in kinds & _WHOLE.keys():
        if kind is not now:
            yield Step(excluded=Outcome.GONE if now is None else Outcome.CHANGED)
            continue
        async for step in _WHOLE[kind](editor, reader, look):
            yield step
    if kinds & _WHOLE.keys():
        yield Step(alone=True)
        (look,) = await reader.inspection.looks([queue])
    for walk in WALKS:
        if wanted := walk & kinds:
            async for step in _mended(reader, look, wanted):
                yield step
            yield Step(alone=True)
    if wanted := LOOSE & kinds:
        async for step in _loosened(reader, queue, wanted):
            yield step


async def _mended(reader: RsmqReader, look: QueueLook, wanted: frozenset[FindingKind]) -> AsyncGenerator[Step, None]:
    """Yield the fixes of messages."""
    async with aclosing(audit_messages(reader, look.queue)) as parts:
        async for part in parts:
            for kind in sorted(wanted):
                found = _messages(part, kind)
                size = MOVE_MESSAGES if kind is FindingKind.FOREIGN_ID else CHUNK_MESSAGES
                for start in range(0, len(found), size):
                    yield _mending(kind, look, found[start : start + size], part.at_ms)


def _messages(part: AuditedPart, kind: FindingKind) -> list[RawMessage]:
    return [flaw.message for flaw in part.found if flaw.kind is kind and flaw.message is not None]


def _mending(kind: FindingKind, look: QueueLook, messages: list[RawMessage], at_ms: int) -> Step:
    queue, must_exist = look.queue, look.exists
    match kind:
        case FindingKind.DANGLING:
            edits = tuple(Edit(message._replace(size=0), None) for message in messages)
            return Step(MessageBatch(EditKind.DROP, queue, edits, must_exist=must_exist))
        case FindingKind.BAD_RC:
            fields = tuple(FieldEdit(message.id + b":rc", message.rc, None) for message in messages)
            return Step(LooseBatch(LooseKind.OWNED, queue, fields))
        case FindingKind.NO_FR:
            fields = tuple(FieldEdit(message.id + b":fr", None, b"%d" % at_ms) for message in messages)
            return Step(LooseBatch(LooseKind.OWNED, queue, fields))
        case FindingKind.FOREIGN_ID:
            free = [message for message in messages if not _is_held(message, at_ms)]
            edits = tuple(
                Edit(message, message._replace(id=_canonical_id(message.id, at_ms, number)))
                for number, message in enumerate(free)
            )
            batch = MessageBatch(EditKind.MOVE, queue, edits, queue, must_exist) if edits else None
            # Messages in flight keep their ids, by which their consumers delete them.
            return Step(batch, Outcome.CHANGED * (len(messages) - len(free)), renames=True)
    edits = tuple(Edit(message, message._replace(score=_milliseconds(kind, message, at_ms))) for message in messages)
    return Step(MessageBatch(EditKind.RESCORE, queue, edits, must_exist=must_exist))


def _milliseconds(kind: FindingKind, message: RawMessage, at_ms: int) -> bytes:
    if kind is FindingKind.NEVER:
        return b"%d" % at_ms
    factor = Decimal(1000) if kind is FindingKind.SECONDS else Decimal("0.001")
    return b"%d" % int(Decimal(message.score.decode()) * factor)


def _is_held(message: RawMessage, at_ms: int) -> bool:
    return float(message.score) > at_ms and (leading_int(message.rc) or 0) > 0


def _canonical_id(id: bytes, at_ms: int, number: int) -> bytes:
    """Return a canonical id of the same time, or of now if the id carries none, plus ``number`` microseconds."""
    time_ms = sent_ms(name_of(id), now_ms=at_ms) or at_ms
    return make_id(time_ms * 1000 + number % 1000).encode()


async def _loosened(reader: RsmqReader, queue: str, wanted: frozenset[FindingKind]) -> AsyncGenerator[Step, None]:
    """Yield the removal of fields that belong to no message; the counters of a body are removed before it."""
    async with aclosing(audit_fields(reader, queue)) as pages:
        async for page in pages:
            if FindingKind.LEAKED in wanted and (bodies := page.ids(FindingKind.LEAKED)):
                counters = [name + suffix for name in bodies for suffix in COUNTER_SUFFIXES]
                for step in await _removals(reader, queue, counters):
                    step.counted, step.alone = False, True
                    step.failed.clear()
                    yield step
                for step in await _removals(reader, queue, bodies):
                    yield step
            if FindingKind.STRAY in wanted and (counters := page.ids(FindingKind.STRAY)):
                for step in await _removals(reader, queue, counters):
                    yield step


async def _removals(reader: RsmqReader, queue: str, names: list[bytes]) -> list[Step]:
    values = await reader.inspection.values(queue, names)
    found = [(name, value) for name, value in zip(names, values, strict=True) if isinstance(value, bytes)]
    steps = [
        Step(LooseBatch(LooseKind.STRAY, queue, tuple(FieldEdit(name, value, None) for name, value in part)))
        for part in chunked(found, CHUNK_MESSAGES, lambda field: len(field[1]), STRAY_BYTES)
    ]
    too_long = sum(isinstance(value, int) for value in values)
    return [*steps, Step(failed=Counter({TOO_LONG: too_long}))] if too_long else steps


async def _complete(editor: RsmqEditor, _: RsmqReader, look: QueueLook) -> AsyncGenerator[Step, None]:
    """Add the missing attributes, and the name to the index."""
    seconds = b"%d" % (await editor.clock_us() // 1_000_000)
    values = {name: DEFAULT_ATTRIBUTES[name] for name in bad_attributes(look)}
    values |= {name: seconds for name in (b"created", b"modified") if name not in look.attributes}
    fields = [FieldEdit(name, look.attributes.get(name), value) for name, value in values.items()]
    # The totals are compared on undo: if they have changed, the queue is in use and stays.
    fields += [FieldEdit(name, look.attributes.get(name), look.attributes.get(name)) for name in _TOTALS]
    batch = FieldBatch(look.queue, tuple(fields), look.listed, listed_after=True, held=look.depth > 0)
    yield Step(batch, alone=True)


async def _list(editor: RsmqEditor, _: RsmqReader, look: QueueLook) -> AsyncGenerator[Step, None]:
    fields = tuple(FieldEdit(name, look.attributes[name], look.attributes[name]) for name in DEFAULT_ATTRIBUTES)
    yield Step(FieldBatch(look.queue, fields, listed_before=False, listed_after=True), alone=True)


async def _forget(editor: RsmqEditor, _: RsmqReader, look: QueueLook) -> AsyncGenerator[Step, None]:
    yield Step(_unlisting(look), alone=True)


async def _drop(editor: RsmqEditor, reader: RsmqReader, look: QueueLook) -> AsyncGenerator[Step, None]:
    """Remove the ids whose bodies were lost with the hash, and then the name from the index."""
    async with aclosing(audit_messages(reader, look.queue)) as parts:
        async for part in parts:
            if part.young:
                yield Step(excluded=Outcome.CHANGED * part.young)
            messages = _messages(part, FindingKind.DANGLING)
            for start in range(0, len(messages), CHUNK_MESSAGES):
                yield _mending(FindingKind.DANGLING, look, messages[start : start + CHUNK_MESSAGES], part.at_ms)
    if look.listed:
        yield Step(alone=True)
        yield Step(_unlisting(look), counted=False, alone=True)


async def _clear(editor: RsmqEditor, _: RsmqReader, look: QueueLook) -> AsyncGenerator[Step, None]:
    """Remove a hash without messages, and the name from the index."""
    async for part in strays(editor, look.queue):
        fields = tuple(FieldEdit(name, value, None) for name, value in part.items())
        yield Step(LooseBatch(LooseKind.STRAY, look.queue, fields), counted=False)
    yield Step(alone=True)
    fields = tuple(FieldEdit(name, value, None) for name, value in look.attributes.items())
    yield Step(FieldBatch(look.queue, fields, look.listed, listed_after=False, empty=True), alone=True)


def _unlisting(look: QueueLook) -> FieldBatch:
    fields = tuple(FieldEdit(name, None, None) for name in (*DEFAULT_ATTRIBUTES, *_TOTALS))
    return FieldBatch(look.queue, fields, look.listed, listed_after=False, empty=True)


_WHOLE = {
    FindingKind.ATTRIBUTES: _complete,
    FindingKind.UNLISTED: _list,
    FindingKind.GHOST: _forget,
    FindingKind.NO_HASH: _drop,
    FindingKind.REMAINS: _clear,
    FindingKind.RESERVED: _clear,
}


_NOTE = "Each problem is checked again, and fixed only if it still exists."


async def preview_of_fix(reader: RsmqReader, base: Preview, action: Fix, on_progress: ScanCallback) -> Preview:
    """Return ``base``, completed with what a fix would do; raises ``TriageError``, and what the reader raises.

    ``on_progress`` gets how many messages and fields were examined, and how many problems were found.
    """
    if action.ns not in (None, base.ns):
        found_in = printable(f"this was found in namespace {action.ns}, but changes now go to {base.ns}")
        raise TriageError(f"{found_in}: run the audit again first")
    if not any(finding.fix is not None for finding in action.findings):
        raise TriageError("none of this has an automatic fix; check it manually")
    counts = await _counts_now(reader, action, on_progress)
    mended = [
        replace(finding, count=counts[kind])
        for finding in action.findings
        if isinstance(kind := finding.kind, FindingKind) and counts[kind]
    ]
    what = "; ".join(finding.what for finding in mended) or "nothing to fix: all problems are gone"
    notes = tuple(f"{finding.kind}: {finding.fix}." for finding in mended)
    return replace(base, count=counts.total(), what=printable(what), notes=(*notes, _NOTE))


async def _counts_now(reader: RsmqReader, action: Fix, on_progress: ScanCallback) -> Counter[FindingKind]:
    """Return the number of problems, by kind; raises what the reader raises.

    Unlike the fix, it does not wait if ids carry no time, so it may count messages that are complete a moment later.
    """
    queue, kinds = action.queue, action.kinds
    (look,) = await reader.inspection.looks([queue])
    now = condition_of(look)
    counts: Counter[FindingKind] = Counter()
    if now is not None and now in kinds and now is not FindingKind.WRONG_TYPE:
        counts[now] = look.depth if now is FindingKind.NO_HASH else 1
    in_messages, in_fields = kinds & frozenset().union(*WALKS), kinds & LOOSE
    if now is FindingKind.NO_HASH and now in kinds:
        # All messages are counted above.
        in_messages -= {FindingKind.DANGLING}
    about = look.depth * bool(in_messages) + look.fields * bool(in_fields)
    examined = 0
    on_progress(ScanProgress(examined, about, counts.total()))
    for walk, meant in ((audit_messages, in_messages), (audit_fields, in_fields)):
        if meant:
            async with aclosing(walk(reader, queue, 0)) as parts:
                async for part in parts:
                    examined += part.examined
                    counts.update(flaw.kind for flaw in part.found if flaw.kind in meant)
                    on_progress(ScanProgress(examined, about, counts.total()))
    return counts

"""Finding out what a fix would mend at this moment, by the look that the fix itself takes."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple

from rsmq_tui.monitor.audit_findings import FindingKind
from rsmq_tui.monitor.suspects import condition_of, loose_fields, suspects
from rsmq_tui.monitor.wording import printable
from rsmq_tui.protocol import QueueReader
from rsmq_tui.triage.actions import Fix
from rsmq_tui.triage.fixing import LOOSE, WALKS
from rsmq_tui.triage.previews import Preview
from rsmq_tui.triage.words import TriageError

_NOTE = "Each problem is checked again, and fixed only if it still exists."


async def preview_of_fix(
    reader: QueueReader, base: Preview, action: Fix, seeing: Callable[[int, int, int], None]
) -> Preview:
    """Find out what a fix would do; ``seeing`` is told how many were looked at, of about how many, and what is wrong.

    Raises ``TriageError``, and what the reader raises.
    """
    if action.ns not in (None, base.ns):
        found_in = printable(f"this was found in namespace {action.ns}, but changes now go to {base.ns}")
        raise TriageError(f"{found_in}: run the audit again first")
    if not any(finding.fix is not None for finding in action.findings):
        raise TriageError("none of this has an automatic fix; check it manually")
    counts: Counter[FindingKind] = Counter()
    async with aclosing(_counts_now(reader, action)) as looks:
        async for look in looks:
            counts = look.counts
            seeing(look.examined, look.about, counts.total())
    mended = [
        replace(finding, count=counts[kind])
        for finding in action.findings
        if isinstance(kind := finding.kind, FindingKind) and counts[kind]
    ]
    what = "; ".join(finding.what for finding in mended) or "nothing to fix: all problems are gone"
    notes = tuple(f"{finding.kind}: {finding.fix}." for finding in mended)
    return replace(base, count=counts.total(), what=printable(what), notes=(*notes, _NOTE))


class _Counted(NamedTuple):
    """How much is wrong so far, by kind: ``examined`` messages and fields were looked at, of ``about`` so many."""

    examined: int
    about: int
    counts: Counter[FindingKind]


async def _counts_now(reader: QueueReader, action: Fix) -> AsyncGenerator[_Counted, None]:
    """Count what a fix would find; the last that is yielded counts all. Raises what the reader raises.

    It does not wait for ids without a time as the fix does: what is whole by then is only counted too much.
    """
    queue, kinds = action.queue, action.kinds
    (look,) = await reader.inspection.looks([queue])
    now = condition_of(look)
    counts: Counter[FindingKind] = Counter()
    if now is not None and now in kinds and now is not FindingKind.WRONG_TYPE:
        counts[now] = look.depth if now is FindingKind.NO_HASH else 1
    in_messages, in_fields = kinds & frozenset().union(*WALKS), kinds & LOOSE
    if now is FindingKind.NO_HASH and now in kinds:
        # Counted above, each of them.
        in_messages -= {FindingKind.DANGLING}
    about = look.depth * bool(in_messages) + look.fields * bool(in_fields)
    examined = 0
    yield _Counted(examined, about, counts)
    if in_messages:
        async with aclosing(suspects(reader, queue, 0)) as parts:
            async for part in parts:
                examined += part.examined
                counts.update(suspect.kind for suspect in part.found if suspect.kind in in_messages)
                yield _Counted(examined, about, counts)
    if in_fields:
        async with aclosing(loose_fields(reader, queue, 0)) as pages:
            async for page in pages:
                examined += page.examined
                found = {FindingKind.LEAKED: len(page.bodies), FindingKind.STRAY: len(page.counters)}
                counts.update({kind: count for kind, count in found.items() if kind in in_fields})
                yield _Counted(examined, about, counts)

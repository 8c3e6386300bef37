"""Auditing and fixing in one go."""

from rsmq_tui.monitor.audit.findings import Finding
from rsmq_tui.monitor.audit.rsmq import audit
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.triage.actions import Fix
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.service import ChangeService
from tests.triage.doing import done


async def found(reader: RsmqReader, queue: str | None = None) -> tuple[Finding, ...]:
    steps = [step async for step in audit(reader, None if queue is None else [queue])]
    return tuple(finding for step in steps for finding in step.findings)


async def fixed(triage: ChangeService, reader: RsmqReader, queue: str = "q") -> ChangeReport:
    return await done(triage, Fix(queue=queue, findings=await found(reader, queue)))

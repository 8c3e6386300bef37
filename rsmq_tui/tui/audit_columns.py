"""The columns of the table of an audit's findings."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit_findings import Finding


@dataclass(frozen=True, slots=True)
class FindingContext:
    """What the cells need besides their finding."""

    ascii_only: bool = False


def finding_key(finding: "Finding") -> str:
    """Return what tells a finding from all others."""
    return f"{finding.kind} {finding.queue}"


def _severity(finding: "Finding", context: FindingContext) -> Piece:
    is_error = finding.severity == "error"
    sign = ("x" if is_error else "!") if context.ascii_only else ("✗" if is_error else "▲")
    return f"{sign} {finding.severity}", "verdict-broken" if is_error else "verdict-growing"


FINDING_COLUMNS: tuple[Column["Finding", FindingContext], ...] = (
    Column("severity", "SEVERITY", 9, _severity),
    Column("queue", "QUEUE", 16, lambda finding, _: (finding.queue or "(no name)", "strong"), most=32),
    Column("what", "WHAT", 20, lambda finding, _: (finding.what, ""), grow=True),
    Column("fix", "FIX", 8, lambda finding, _: (_fix(finding), "muted"), drop=1),
)


def _fix(finding: "Finding") -> str:
    if finding.fix is None:
        return "manual"
    return "on request" if finding.asks else "f fixes"

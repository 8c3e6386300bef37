"""Samples of list queues, from those of queues of RSMQ that the same happens to: without what no list tells."""

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.generating.plan import LISTS
from rsmq_tui.history.names import stored_name
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.monitor import Verdict

_UNKNOWN = (
    *("oldest_ready_age_ms", "totalsent", "totalrecv", "vt_s", "delay_s", "maxsize", "created_ms", "modified_ms"),
    *("poison", "highest_rc", "oldest_ready_waiting_ms"),
)
# What only ages and receive counts tell.
_UNTOLD = pa.array([str(Verdict.AGED), str(Verdict.POISONED)])
_OK, _ZERO = pa.scalar(str(Verdict.OK)), pa.scalar(0, pa.int64())


def as_lists(table: pa.Table) -> pa.Table:
    """Return the rows as a recorder of lists would have written them."""
    schema, rows = SCHEMAS[SAMPLES], table.num_rows
    is_queue = pc.is_valid(table.column("queue"))
    verdict = table.column("verdict").cast(pa.string())
    told = {
        "ns": pa.repeat(pa.scalar(stored_name(LISTS.ns)), rows),
        "kind": pc.if_else(is_queue, pa.scalar("list"), pa.scalar(None, pa.string())),
        "verdict": pc.if_else(pc.is_in(verdict, value_set=_UNTOLD), _OK, verdict),
        "expired": pc.if_else(is_queue, _ZERO, pa.scalar(None, pa.int64())),
        **{name: pa.nulls(rows, schema.field(name).type) for name in _UNKNOWN},
    }
    return pa.table({field.name: told.get(field.name, table.column(field.name)) for field in schema}).cast(schema)

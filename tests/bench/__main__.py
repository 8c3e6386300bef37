"""``python -m tests.bench``: one line per row, both sides measured in this run; the exit status judges nothing."""

import argparse
import json
import signal
import sys
import time
from typing import Any

from tests.bench.row import Measured, Row, Run
from tests.bench.rows import ROWS, chosen

_NAME_WIDTH = max(len(row.name) for row in ROWS)
_CLEAR_LINE = "\r\x1b[2K"


def main() -> int:
    """Measure the requested rows and print them."""
    options = _arguments().parse_args()
    rows = chosen(options.only)
    if options.list:
        for row in rows:
            print(f"{row.name:{_NAME_WIDTH}}  {row.wanted:>7}  {row.unit:3}  against {row.against}")
        return 0
    if not rows:
        print(f"no row's name contains {' or '.join(options.only)}; --list shows them", file=sys.stderr)
        return 2
    # When the bench is stopped, its servers must stop too: let SIGTERM unwind as Ctrl+C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        results = [_run(row, quick=options.quick, as_json=options.json) for row in rows]
    except KeyboardInterrupt:
        print(f"{_clear()}interrupted", file=sys.stderr)
        return 130
    if options.json:
        print(json.dumps(results, indent=2))
    return 0


def _run(row: Row, *, quick: bool, as_json: bool) -> dict[str, Any]:
    """Measure one row; a row that cannot be measured here says why and is not ok."""
    started_s = time.monotonic()
    measured: Measured | None = None
    note = ""
    try:
        measured = row.measure(Run(quick=quick, say=lambda text: _say(row, text)))
        note = measured.note
    except Exception as error:  # one row's failure must not cost the others
        note = f"not measured: {type(error).__name__}: {error}"
    result = row.result(measured)
    took = f"{row.name}: {time.monotonic() - started_s:.1f} s"
    print(f"{_clear()}{took}{'; ' if note else ''}{note}", file=sys.stderr, flush=True)
    if not as_json:
        print(_line(result), flush=True)
    return result


def _line(result: dict[str, Any]) -> str:
    ours, other = _figure(result["ours"]), _figure(result["other"])
    ratio = "–" if result["ratio"] is None else f"{result['ratio']:.3f}"
    verdict = "ok" if result["ok"] else "MISSED"
    return (
        f"{result['row']:{_NAME_WIDTH}}  ours {ours:>9}  other {other:>9} {result['unit']:5}"
        f"  ratio {ratio:>8}  target {result['target']:>7}  {verdict}"
    )


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 100 else f"{value:.1f}"


def _say(row: Row, text: str) -> None:
    if sys.stderr.isatty():
        print(f"{_clear()}{row.name}: {text}", end="", file=sys.stderr, flush=True)


def _clear() -> str:
    return _CLEAR_LINE if sys.stderr.isatty() else ""


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure rsmq-tui against what else there is. ok tells whether the ratio reaches the target: "
        "'>= N' is how many times less ours takes (other / ours), '<= N' how many times as much (ours / other).",
    )
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="rows whose name contains it")
    parser.add_argument("--json", action="store_true", help="print a list of objects instead of lines")
    parser.add_argument("--list", action="store_true", help="name the rows and measure nothing")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, figures mean nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())

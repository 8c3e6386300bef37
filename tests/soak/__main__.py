"""``python -m tests.soak``: the exit status is 1 if something grows, 3 if it is not proved that nothing does."""

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.report import judged, lines
from tests.soak.running import SAMPLES, Plan, run


def main() -> int:
    """Run what was asked for, or take the samples of an earlier run, and print the report."""
    options = _arguments().parse_args()
    samples: Path | None = options.fit
    # What it has started must end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if samples is None:
            out = options.out or Path(tempfile.mkdtemp(prefix="rsmq-tui-soak-"))
            samples = out / SAMPLES
            run(Plan(options.hours * 3600, options.queues, options.speed, out.resolve()), _say)
        elif samples.is_dir():
            samples /= SAMPLES
        found = judged(samples)
    except KeyboardInterrupt:
        _say(f"interrupted; --fit {samples} judges the samples")
        return 130
    except (OSError, ValueError) as error:
        _say(str(error))
        return 2
    if options.json:
        rows = [row.as_json() for row in found.rows]
        print(
            json.dumps({"hours": found.hours, "rows": rows, "done": found.done, "troubles": found.troubles}, indent=2)
        )
    else:
        print("\n".join(lines(found)))
    return found.status


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="Run a dashboard, a recorder, an exporter, watch, and serve with pages beside a busy workload, and "
        "judge whether their memory, descriptors, threads and tasks, and the server's clients and keys, grow.",
    )
    parser.add_argument("--hours", type=float, default=2.0, metavar="H", help="default: 2; may be a fraction")
    parser.add_argument("--queues", type=int, default=40, metavar="N", help="queues that come and go; default: 40")
    parser.add_argument(
        "--speed",
        type=int,
        default=8,
        metavar="N",
        help="of the server's clock and the demo's workload; default: 8, so that an hour is kept after 8 minutes",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="a folder that has no run yet; default: a new one")
    parser.add_argument("--fit", type=Path, metavar="FILE", help="only judge the samples of an earlier run, or its DIR")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of a table")
    return parser


if __name__ == "__main__":
    sys.exit(main())

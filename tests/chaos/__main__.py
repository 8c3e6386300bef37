"""``python -m tests.chaos``: rounds of random faults, a table of them, and how to replay each violation.

The exit status is 1 if an invariant was violated, and 2 if the options are wrong.
"""

import argparse
import json
import multiprocessing
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from tests.chaos import faults, processes
from tests.chaos.rounds import Result, play
from tests.clocked_server import ClockedServer

_CLEAR_LINE = "\r\x1b[2K"
# Without --fault, one round in so many has real processes.
_EACH = 1_000
_ROUNDS = 1_000
_MESSAGE_WIDTH = 90
# How often progress is told where there is no terminal; on a terminal, after each round.
_SAY_S = 60.0
# What was done, and what cannot be undone, is told of whatever happened.
_ORDINARY = ("done", "refused: change n ", "refused: nothing to undo")
_HOW_MAX = 1_000


@dataclass
class Totals:
    """What all rounds came to: by fault, how many rounds, violations, and what operators were told."""

    rounds: int = 0
    points: int = 0
    changes: int = 0
    by_fault: Counter[str] = field(default_factory=Counter)
    violations_by_fault: Counter[str] = field(default_factory=Counter)
    messages: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    violations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, result: Result, replay: str) -> None:
        """Add a round."""
        self.rounds += 1
        self.points += result.points
        self.changes += result.changes
        for name in result.faults or ("none",):
            self.by_fault[name] += 1
            self.violations_by_fault[name] += bool(result.violations)
            if len(result.faults) < 2:
                # Of several faults it is not known which one was told.
                self.messages[name].update(result.messages)
        self.violations += [
            {"seed": result.seed, "law": law, "how": how[:_HOW_MAX], "replay": replay} for law, how in result.violations
        ]

    def usual_message(self, name: str) -> str:
        """Return what operators were told most often of a fault alone, except what they are told without faults."""
        usual = self.messages["none"]
        for text, _ in self.messages[name].most_common():
            if text not in usual and not text.startswith(_ORDINARY):
                return text
        return "as without faults"


def main() -> int:
    """Play the rounds that were asked for, and print what they came to."""
    options = _arguments().parse_args()
    if options.list:
        width = max(map(len, (*faults.WORDS, *processes.WORDS)))
        for name, words in (faults.WORDS | processes.WORDS).items():
            print(f"{name:{width}}  {words}")
        return 0
    if unknown := set(options.fault) - {*faults.WORDS, *processes.WORDS}:
        print(f"no fault is called {', '.join(sorted(unknown))}; --list shows them", file=sys.stderr)
        return 2
    # Servers must be stopped too: let SIGTERM unwind as Ctrl+C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    totals, started_s = Totals(), time.monotonic()
    try:
        _play_all(options, totals, started_s)
    except KeyboardInterrupt:
        print(f"{_clear()}interrupted", file=sys.stderr)
    print(_clear(), end="", file=sys.stderr)
    took_s = time.monotonic() - started_s
    if options.json:
        print(json.dumps(_as_json(totals, took_s), indent=2))
    else:
        _print_table(totals, took_s)
    return 1 if totals.violations else 0


def _play_all(options: argparse.Namespace, totals: Totals, started_s: float) -> None:
    said_s = started_s
    with closing(_results(options, started_s)) as results:
        for result in results:
            replay = " ".join(
                [
                    f"python -m tests.chaos --seed {result.seed} --rounds 1",
                    *(f"--fault {name}" for name in options.fault),
                ]
            )
            totals.add(result, replay)
            if options.trace:
                print(*result.trace, sep="\n")
            for law, how in result.violations:
                print(
                    f"{_clear()}seed {result.seed}: {law}: {how[:_HOW_MAX]}\n  {replay} --trace",
                    file=sys.stderr,
                    flush=True,
                )
            if sys.stderr.isatty():
                said_s = 0.0
            if time.monotonic() - said_s > _SAY_S:
                said_s = time.monotonic()
                text = f"{totals.rounds:,} rounds, {len(totals.violations)} violations; seed {result.seed}"
                print(f"{_clear()}{text}", end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


def _results(options: argparse.Namespace, started_s: float) -> Generator[Result, None, None]:
    """Play the rounds, in as many processes as ``--jobs`` says: a round mostly waits for its server's replies."""
    if options.jobs == 1:
        yield from _played(options, started_s, 0)
        return
    fork = multiprocessing.get_context("fork")
    running: list[Connection] = []
    workers = []
    for job in range(options.jobs):
        ours, theirs = fork.Pipe(duplex=False)
        worker = fork.Process(target=_work, args=(options, started_s, job, theirs))
        worker.start()
        theirs.close()
        running.append(ours)
        workers.append(worker)
    try:
        while running:
            for pipe in wait(running):
                assert isinstance(pipe, Connection)
                try:
                    yield pipe.recv()
                except EOFError:
                    running.remove(pipe)
    finally:
        for worker in workers:
            if running:
                worker.terminate()
            worker.join()
    if failed := [worker.exitcode for worker in workers if worker.exitcode]:
        print(f"{len(failed)} of {options.jobs} jobs have failed: their other rounds were not played", file=sys.stderr)


def _work(options: argparse.Namespace, started_s: float, job: int, results: Connection) -> None:
    try:
        for result in _played(options, started_s, job):
            if not options.trace:
                result.trace.clear()
            results.send(result)
    except KeyboardInterrupt:
        return


def _played(options: argparse.Namespace, started_s: float, job: int) -> Iterator[Result]:
    """Play the rounds of one of the jobs."""
    with ExitStack() as stack:
        server: ClockedServer | None = None
        for seed in _seeds(options, started_s):
            if (seed - options.seed) % options.jobs != job:
                continue
            cheap, real = _kinds(options.fault, seed)
            if real:
                yield processes.play(seed, real)
            else:
                server = server or stack.enter_context(ClockedServer())
                yield play(server, seed, cheap)


def _seeds(options: argparse.Namespace, started_s: float) -> Iterator[int]:
    rounds = options.rounds if options.rounds is not None else None if options.minutes else _ROUNDS
    seed = options.seed
    while rounds is None or seed < options.seed + rounds:
        if options.minutes and time.monotonic() - started_s > options.minutes * 60:
            return
        yield seed
        seed += 1


def _kinds(chosen: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """Return the faults that a round may have: those within this process, or those with processes of their own."""
    cheap = [name for name in chosen if name in faults.WORDS]
    real = [name for name in chosen if name in processes.WORDS]
    if not chosen:
        return [], list(processes.WORDS) if seed % _EACH == _EACH - 1 else []
    if cheap and real:
        return (cheap, []) if seed % 2 else ([], real)
    return cheap, real


def _print_table(totals: Totals, took_s: float) -> None:
    width = max(map(len, (*totals.by_fault, "fault")))
    print(f"{'fault':{width}}  {'rounds':>7}  violations  what operators were told most often")
    for name, rounds in sorted(totals.by_fault.items()):
        message = totals.usual_message(name)[:_MESSAGE_WIDTH]
        print(f"{name:{width}}  {rounds:7,}  {totals.violations_by_fault[name]:10,}  {message}")
    print(
        f"{totals.rounds:,} rounds, {totals.changes:,} changes, {totals.points:,} points in {took_s:,.0f} s: "
        f"{len(totals.violations)} violations"
    )
    for violation in totals.violations:
        print(f"{violation['law']}: {violation['replay']}")


def _as_json(totals: Totals, took_s: float) -> dict[str, Any]:
    found = {
        name: {"rounds": rounds, "violations": totals.violations_by_fault[name], "told": totals.usual_message(name)}
        for name, rounds in sorted(totals.by_fault.items())
    }
    return {
        "rounds": totals.rounds,
        "changes": totals.changes,
        "points": totals.points,
        "seconds": round(took_s, 1),
        "faults": found,
        "violations": totals.violations,
    }


def _clear() -> str:
    return _CLEAR_LINE if sys.stderr.isatty() else ""


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description="Play rounds of random faults against changes, and check what must hold all along.",
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first round; the others follow (0)")
    parser.add_argument("--rounds", type=int, default=None, help="how many rounds (1000, or as long as --minutes)")
    parser.add_argument("--minutes", type=float, default=0.0, help="for how long at most")
    parser.add_argument("--jobs", type=int, default=1, help="how many rounds are played at the same time (1)")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME", help="only this fault; repeatable")
    parser.add_argument("--list", action="store_true", help="list the faults")
    parser.add_argument("--trace", action="store_true", help="print all that happens in each round")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())

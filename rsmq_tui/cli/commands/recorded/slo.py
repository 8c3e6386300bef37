"""`rsmq-tui slo`: whether the service level objectives of the configuration file were met."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rsmq_tui.cli.commands.recorded import analysis_option, chosen_queues, objectives_of, open_analysis, span_of
from rsmq_tui.cli.errors import EXIT_FAILED, UsageError, refusing
from rsmq_tui.cli.options import complete_queues, config, json_option
from rsmq_tui.cli.output import print_json, print_table, say, wants_json
from rsmq_tui.cli.parsing import Command, Options, option
from rsmq_tui.monitor.moments import MomentError, read_moment
from rsmq_tui.monitor.text import printable

if TYPE_CHECKING:
    from rsmq_tui.history.report.slo import ServiceLevel

_NOTES = """\
The attainment is the share of the watched time that was good, in the window of the objective. BUDGET LEFT is the share
of that window's error budget that is left. The burn rates of the last hour, six hours and three days say how many times
faster than allowed the budget was used; ! marks those that somebody should be called for: 14.4, 6 and 1 or more. The
last week is compared with the one before. `rsmq-tui help report` has more."""


@click.command(
    cls=Command,
    notes=_NOTES,
    examples=("--analysis analysis", "--analysis analysis --queue orders --json"),
    statuses={
        0: "every objective is met",
        1: "an objective is missed, or some files of the analysis could not be read and are named",
        2: "a usage error, no such analysis, or no objectives",
    },
)
@analysis_option
@option("--to T", "the end of all times, as for `rsmq-tui report` (default: the end of the analysis)", name="to_text")
@option("--queue QUEUE", "only this queue and its server; may be repeated", name="queues", multiple=True,
        shell_complete=complete_queues)  # fmt: skip
@config
@json_option
def command(options: Options) -> int:
    """Print how well each objective was met; raises ``UsageError``."""
    analysis = open_analysis(options, "service levels")
    from rsmq_tui.history.report.slo import ServiceLevels  # noqa: PLC0415 - its packages are there

    end_ms = span_of(analysis).to_ms
    with refusing(MomentError):
        end_ms = end_ms if options.to_text is None else read_moment(options.to_text, end_ms)
    found = ServiceLevels(analysis, end_ms, objectives_of(options), chosen_queues(options.queues, analysis))
    if not found.levels:
        raise UsageError("no objectives: write them as [[profiles.NAME.slo]]; `rsmq-tui help report` has an example")
    if wants_json(options):
        for level in found.levels:
            print_json(level.as_json(found.uses(level)))
    else:
        _print(found.levels)
    for problem in analysis.problems:
        say(problem)
    return EXIT_FAILED if analysis.left_out or not all(level.is_met for level in found.levels) else 0


def _print(levels: "Sequence[ServiceLevel]") -> None:
    from rsmq_tui.history.report.slo import command_name  # noqa: PLC0415 - its packages are there
    from rsmq_tui.history.report.tables import slo_table  # noqa: PLC0415

    several = len({(level.subject.profile, level.subject.server) for level in levels}) > 1

    def name(level: "ServiceLevel") -> str:
        server = level.subject.profile or level.subject.server
        if level.queue is None:
            return printable(server)
        return printable(f"{command_name(level.queue)} · {server}" if several else command_name(level.queue))

    found = slo_table(levels, name, len(levels))
    print_table([title.upper() for title in found.titles], found.rows, right=found.right)

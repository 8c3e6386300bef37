"""Series over time as sparklines under each other."""

from collections.abc import Sequence

from rsmq_tui.charts.series import Series, Span, fold_runs, split_runs
from rsmq_tui.charts.spark import spark_top, sparkline


def sparklines(
    series: Sequence[Series],
    *,
    width: int,
    start_ms: int,
    end_ms: int,
    ascii: bool = False,  # noqa: A002 - named like Palette.ascii, and the builtin has no use here
) -> list[str]:
    """Draw each series in exactly `width` cells, all over the same time and to the same scale.

    A cell shows the largest value of its time. Unknown values and missing samples are blank.
    """
    if width < 1:
        return ["" for _ in series]
    span = Span(start_ms, max(end_ms, start_ms + 1))
    cells = [fold_runs(split_runs(each, span, span.length_ms / width), span, width) for each in series]
    top = max(map(spark_top, cells), default=0.0)
    return [sparkline(values, width, ascii=ascii, top=top).plain for values in cells]

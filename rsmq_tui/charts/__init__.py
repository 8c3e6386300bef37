"""Charts as styled text: numbers, a size and a palette in, `rich.text.Text` out.

Nothing here reads a clock, a terminal or Redis, and importing this package does not import plotext.
"""

from rsmq_tui.charts.bars import bar_rows
from rsmq_tui.charts.chart import line_chart
from rsmq_tui.charts.palette import Palette
from rsmq_tui.charts.series import Series
from rsmq_tui.charts.spark import fold_latest, spark_runs, sparkline
from rsmq_tui.charts.sparks import sparklines
from rsmq_tui.charts.ticks import tick_label

__all__ = [
    "Palette", "Series", "bar_rows", "fold_latest", "line_chart", "spark_runs", "sparkline", "sparklines", "tick_label"
]  # fmt: skip

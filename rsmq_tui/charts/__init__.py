"""Charts as styled text: numbers, a size and a palette in, `rich.text.Text` out.

drawing  bars, sparklines, and line charts with axes and a legend; the only importer of plotext
series   time series, gaps, axis ticks, colours and labels

Nothing here reads a clock, a terminal or Redis. Importing this package does not import plotext.
"""

from rsmq_tui.charts.drawing import bar_rows, fold_latest, line_chart, spark_runs, sparkline, sparklines
from rsmq_tui.charts.series import Palette, Series, tick_label

__all__ = [
    "Palette", "Series", "bar_rows", "fold_latest", "line_chart", "spark_runs", "sparkline", "sparklines", "tick_label"
]  # fmt: skip

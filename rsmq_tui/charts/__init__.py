"""Charts as styled text: numbers, a size and a palette in, `rich.text.Text` out.

drawing  bars, sparklines, and line charts with axes and a legend; the only importer of plotext
series   time series, gaps, axis ticks, colours and labels

Nothing here reads a clock, a terminal or Redis. plotext is imported when the first line chart is drawn.
"""

"""Generates a synthetic history in the recorder's format, for tests and measurements.

generator  writes the files: samples, list queues and inventories
plan       what is generated: files, queues, their curves over time, and reproducible random numbers
"""

from rsmq_tui.history.synthetic.generator import Generator, Progress
from rsmq_tui.history.synthetic.plan import HistorySpec

__all__ = ["Generator", "HistorySpec", "Progress"]

"""A history that nobody recorded, in the recorder's layout: to look around in, to test with, to measure on."""

from rsmq_tui.history.generating.generator import Generator, Progress
from rsmq_tui.history.generating.plan import Wanted

__all__ = ["Generator", "Progress", "Wanted"]

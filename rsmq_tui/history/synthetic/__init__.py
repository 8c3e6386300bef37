"""A history that nobody recorded, in the recorder's layout: to look around in, to test with, to measure on."""

from rsmq_tui.history.synthetic.generator import Generator, Progress
from rsmq_tui.history.synthetic.plan import Wanted

__all__ = ["Generator", "Progress", "Wanted"]

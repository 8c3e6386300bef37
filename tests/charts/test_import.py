import subprocess
import sys
from pathlib import Path

import rsmq_tui.charts


def test_importing_charts_imports_neither_plotext_nor_textual() -> None:
    code = "import sys, rsmq_tui.charts.drawing; print({'plotext', 'textual', 'redis'} & set(sys.modules))"
    root = Path(rsmq_tui.charts.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

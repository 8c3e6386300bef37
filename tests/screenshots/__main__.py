"""`python -m tests.screenshots` writes all pictures; with --check it only says which are out of date."""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from tests.screenshots.gallery import gallery
from tests.screenshots.scenes import SCENES, picture

FOLDER = Path(__file__).parents[2] / "screenshots"
PICTURES: dict[str, Callable[[], Coroutine[Any, Any, str]]] = {
    **{scene.name: partial(picture, scene) for scene in SCENES},
    "themes": gallery,
}


def main() -> int:
    """Write or check; the exit status is 1 when a picture is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    stale = 0
    with tempfile.TemporaryDirectory() as empty:
        # The user's own themes must not get into the pictures.
        os.environ["XDG_CONFIG_HOME"] = empty
        for name, made in PICTURES.items():
            path = FOLDER / f"{name}.svg"
            svg = asyncio.run(made())
            if path.exists() and path.read_text() == svg:
                continue
            stale += 1
            print(path.relative_to(FOLDER.parent))
            if not options.check:
                path.write_text(svg)
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

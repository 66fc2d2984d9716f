#!/usr/bin/env python
"""The picture in docs/explain.md, drawn by `fdiff.draw` of the code that stands above it.

python docs/make_tape_picture.py            # print the picture
python docs/make_tape_picture.py --write    # and write docs/tape.svg
"""

import linecache
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import fdiff

PAGE = Path(__file__).parent / "explain.md"
PICTURE = PAGE.with_name("tape.svg")


def picture() -> str:
    """The text of the picture."""
    code = re.findall(r"```python\n(def energy.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = code[0].splitlines(keepends=True)
    linecache.cache["explain.md"] = (0, None, lines, "explain.md")
    with TemporaryDirectory() as folder:
        text = code[0].replace("energy.svg", str(Path(folder) / "energy.svg"))
        exec(compile(text, "explain.md", "exec"), {"np": np, "fdiff": fdiff})  # noqa: S102 - our own
        return (Path(folder) / "energy.svg").read_text(encoding="utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        PICTURE.write_text(picture(), encoding="utf-8")
    else:
        print(picture())  # noqa: T201 - what the script is for

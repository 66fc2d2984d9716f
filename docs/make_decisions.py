# ruff: noqa: INP001, T201 - a script, which prints
"""The decisions by the files that they are about, from the line "Where" of each page.

python docs/make_decisions.py            # print the index
python docs/make_decisions.py --write    # write docs/decisions/by-file.md
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "decisions"
PAGE = FOLDER / "by-file.md"
OTHERS = {"README.md", "dead-ends.md", PAGE.name}  # pages that are no decisions
HEAD = """# Decisions by file

The files and folders of the package that a [decision](README.md) is about.
`python docs/make_decisions.py --write` writes this page from the lines "Where" of the decisions.
"""
_NAME = re.compile(r"`([\w/.]+?(?:\.py|/))(?:: [^`]*)?`")


def files_of(text: str) -> list[str]:
    """The files and folders that a decision names after "Where", as paths in the repository."""
    where = text.partition("**Where.**")[2].partition("\n\n")[0]
    files: list[str] = []
    for name in _NAME.findall(where):
        near = f"{files[-1].rpartition('/')[0]}/{name}" if files else name
        paths = [path for path in (name, near) if (ROOT / path).exists()]
        paths += [str(p.relative_to(ROOT)) for p in (ROOT / "fdiff").rglob(name)]
        files += paths[:1]
    return files


def index() -> str:
    """The page: each file of the package with its decisions."""
    pages: dict[str, list[str]] = defaultdict(list)
    for page in sorted(FOLDER.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        title = text.splitlines()[0].removeprefix("# ")
        for file in dict.fromkeys(files_of(text) if page.name not in OTHERS else ()):
            if file.startswith("fdiff/"):
                pages[file].append(f"[{title}]({page.name})")
    rows = [f"- `{file}`: {'; '.join(titles)}" for file, titles in sorted(pages.items())]
    return "\n".join([HEAD, *rows, ""])


if __name__ == "__main__":
    print(index())
    if "--write" in sys.argv:
        PAGE.write_text(index(), encoding="utf-8")

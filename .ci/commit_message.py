"""Refuse a commit that holds several ideas, or that users notice and CHANGELOG.md does not tell.

`make hooks` installs it. One sentence says what one commit is about; "internal:" in front of it
says that users see nothing of it.
"""
# ruff: noqa: INP001, S607, T201 - a script, which asks the user's git and prints

import re
import subprocess
import sys
from pathlib import Path

SEEN_BY_USERS = (
    "fdiff/__init__.py",
    "fdiff/autograd/",
    "fdiff/dispatch/",
    "fdiff/functional/",
    "fdiff/kernels/",
    "fdiff/optimize/",
    "fdiff/profiler/",
)
# Subjects that say nothing of the change.
_SAYS_NOTHING = re.compile(
    r"(internal: *)?(wip\b.*|(fixup|squash)!.*|Merge branch '[^']*'( into \S+)?)"
    r"|internal: *(an? |some )?(budget|line|name|type|row|word|test)s?",
    re.IGNORECASE,
)


def faults(message: str, changed: list[str]) -> list[str]:
    """What is wrong with a commit of these files."""
    subject = message.split("\n", maxsplit=1)[0]
    found: list[str] = []
    if _SAYS_NOTHING.fullmatch(subject.strip()):
        found.append("the first line says nothing of the change: say what the commit does.")
    if ";" in subject:
        found.append("the first line holds several ideas: make a commit of each.")
    seen = any(name.startswith(SEEN_BY_USERS) for name in changed)
    if seen and "CHANGELOG.md" not in changed and not subject.startswith("internal:"):
        found.append('users see this change: tell it in CHANGELOG.md, or begin with "internal:".')
    return found


def main() -> int:
    """Check the message in the file that git names."""
    listed = subprocess.run(
        ["git", "diff", "--cached", "--name-only"], check=True, capture_output=True, text=True
    )
    found = faults(Path(sys.argv[1]).read_text(encoding="utf-8"), listed.stdout.split("\n"))
    for fault in found:
        print(f"commit message: {fault}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

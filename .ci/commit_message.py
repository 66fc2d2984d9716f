"""Refuse a commit that holds several ideas, or that users notice and CHANGELOG.md does not tell.

One sentence says what one commit is about; "internal:" in front of it says that users see nothing
of it. `make hooks` has git ask this script before each commit. With ``--history``, as `.ci/run`
calls it, the script checks the commits since the last version's tag, and none from before `BEGIN`,
when not everybody had installed the hook.
"""
# ruff: noqa: INP001, S603, T201 - a script, which asks the user's git and prints

import re
import subprocess
import sys
from datetime import datetime
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
BEGIN = "2026-11-28T00:00:00+00:00"  # commits are checked from this date on
COMMAS = "2026-11-28T09:00:00+00:00"  # and from this one on for ", and"
LINES = "2026-11-28T12:00:00+00:00"  # and from this one on for lines of the changelog
# Subjects that say nothing of the change.
_SAYS_NOTHING = re.compile(
    r"(internal: *)?(wip\b.*|(fixup|squash)!.*|Merge branch '[^']*'( into \S+)?)"
    r"|(internal: *)?(an? |some )?(budget|line|name|type|row|word|test)s?",
    re.IGNORECASE,
)


def faults(message: str, changed: list[str], *, commas: bool = True, told: int = 1) -> list[str]:
    """What is wrong with a commit of these files; ``, and`` if `commas` are looked at.

    `told` counts the lines that the commit adds to the changelog.
    """
    subject = message.split("\n", maxsplit=1)[0]
    found: list[str] = []
    if _SAYS_NOTHING.fullmatch(subject.strip()):
        found.append("the first line says nothing of the change: say what the commit does.")
    if ";" in subject or (commas and ", and" in subject):
        found.append("the first line holds several ideas: make a commit of each.")
    if told > 1 and not subject.startswith("internal:"):
        found.append("it tells users several things in CHANGELOG.md: make a commit of each.")
    seen = any(name.startswith(SEEN_BY_USERS) for name in changed)
    if seen and "CHANGELOG.md" not in changed and not subject.startswith("internal:"):
        found.append('users see this change: tell it in CHANGELOG.md, or begin with "internal:".')
    return found


def history_faults(repository: Path) -> list[str]:
    """The faults of the commits since the last tag, as far back as a shallow clone goes.

    Merges are what a hosting service writes. The oldest commit of a shallow clone seems to add
    every file, CHANGELOG.md too, so that only its subject is judged.
    """
    if not (repository / ".git").exists():  # a source distribution
        return []
    tag = _git(repository, "describe", "--tags", "--abbrev=0", check=False).strip()
    commits = _git(
        repository, "log", "--no-merges", f"--since={BEGIN}", "--numstat",
        "--format=%x00%h%n%cI%n%s", *([f"{tag}..HEAD"] if tag else []),
    )  # fmt: skip
    report: list[str] = []
    subjects: set[str] = set()
    for commit in commits.split("\0")[1:]:
        name, date, subject, *counts = commit.split("\n")
        changed, told = _files(counts)
        after = {day: datetime.fromisoformat(date) >= _date(day) for day in (COMMAS, LINES)}
        again = ["another commit has the same first line."] if subject in subjects else []
        subjects.add(subject)
        wrong = faults(subject, changed, commas=after[COMMAS], told=told if after[LINES] else 1)
        report += [f"{name} {subject!r}: {fault}" for fault in (*wrong, *again)]
    return report


def _files(counts: list[str]) -> tuple[list[str], int]:
    """The files that `git --numstat` counts lines of, and the lines added to the changelog."""
    rows = [row.split("\t") for row in counts if row]
    added = {name: number for number, _, name in rows}
    return [*added], int(added.get("CHANGELOG.md", 0))


def _date(day: str) -> datetime:
    return datetime.fromisoformat(day)


def _git(repository: Path, *words: str, check: bool = True) -> str:
    command = ["git", "-C", str(repository), *words]
    return subprocess.run(command, check=check, capture_output=True, text=True).stdout


def main() -> int:
    """Check the message in the file that git names, or the history."""
    repository = Path(__file__).parents[1]
    if sys.argv[1:] == ["--history"]:
        report = history_faults(repository)
    else:
        changed, told = _files(_git(repository, "diff", "--cached", "--numstat").split("\n"))
        report = faults(Path(sys.argv[1]).read_text(encoding="utf-8"), changed, told=told)
    for fault in report:
        print(f"commit message: {fault}", file=sys.stderr)
    return int(bool(report))


if __name__ == "__main__":
    sys.exit(main())

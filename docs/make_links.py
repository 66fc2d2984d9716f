# ruff: noqa: INP001, T201 - a script, which prints
"""Put the address of the repository where it is needed: `project.urls`, README, two pages.

    python docs/make_links.py                             # check that all of them name one address
    python docs/make_links.py https://github.com/me/fdiff # replace that address everywhere

A package index shows README without the repository, so that its links and pictures are absolute.
The address is `Homepage` in `[project.urls]`; all other addresses begin with it.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = (
    "pyproject.toml",
    "README.md",
    "CITATION.cff",
    "conda/recipe.yaml",
    "docs/distributed.md",
    "docs/index.md",
    "docs/install.md",
    "docs/development.md",
)


def home() -> str:
    """The address of the repository, as pyproject.toml has it."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]["urls"]["Homepage"]


def raw(address: str) -> str:
    """Where the repository's files are served as they are, for pictures."""
    return address.replace("https://github.com/", "https://raw.githubusercontent.com/")


def linked_file(link: str) -> Path | None:
    """The file of the repository behind an absolute link, or None for a link to elsewhere."""
    for prefix in (f"{home()}/blob/main/", f"{home()}/tree/main/", f"{raw(home())}/main/"):
        if link.startswith(prefix):
            return ROOT / link.removeprefix(prefix)
    return None


def replaced(text: str, old: str, new: str) -> str:
    return text.replace(old, new).replace(raw(old), raw(new))


def main() -> None:
    old = home()
    if not sys.argv[1:]:
        print(f"The repository is at {old}.")
        return
    new = sys.argv[1].rstrip("/")
    for name in FILES:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        path.write_text(replaced(text, old, new), encoding="utf-8")
        print(f"{name}: {text.count(old) + text.count(raw(old))} links")


if __name__ == "__main__":
    main()

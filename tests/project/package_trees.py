"""Syntax trees of the package: a process parses each file once, and lists the nodes of it once."""

import ast
import functools
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fdiff"


def dotted(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes_of(tree):
    """The nodes of a tree, as `ast.walk` gives them."""
    return (*ast.walk(tree),)


class Trees(Mapping):
    """The trees of the package by the names of their modules, parsed when they are asked for."""

    def __getitem__(self, name):
        return tree_of(MODULES[name])

    def __iter__(self):
        return iter(MODULES)

    def __len__(self):
        return len(MODULES)


TREES = Trees()

"""The progress of a solver, shown like all long work of fdiff, or as a bar of tqdm."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ..errors import InputError, failure, shown
from ..foreign_errors import contextmanager
from ..process.forking import imported
from ..process.progress import Stage

CHOICES = "Write progress=None for a line after two seconds, False for none, or 'tqdm'."


@contextmanager
def iterations_shown(progress: object, call: str) -> Generator[Callable[..., None]]:
    """A function that shows an iteration, its objective and infeasibility, if asked for."""
    if progress is False:
        yield lambda *_: None
        return
    bar: Any = None
    if progress == "tqdm":
        bar = _tqdm(call)
    elif progress is not None and progress is not True:
        fact = f"progress must be None, True, False or 'tqdm', not {shown(progress)}."
        raise failure(InputError, call, fact, CHOICES)
    stage = Stage("solving", call)

    def show(iteration: int, objective: float, infeasibility: float | None = None) -> None:
        words = f"objective {objective:.8g}"
        if infeasibility is not None:
            words += f", infeasibility {infeasibility:.1e}"
        stage.what = f"iteration {iteration}, {words},"
        if bar is not None:
            bar.set_postfix_str(words, refresh=False)
            bar.update(iteration - bar.n)

    try:
        with stage:
            yield show
    finally:
        if bar is not None:
            bar.close()


def _tqdm(call: str) -> object:
    """The bar of tqdm."""
    try:
        return imported("tqdm.auto").tqdm(desc=call, unit="iteration")
    except ImportError:
        fact = "progress='tqdm' needs tqdm, which is not installed."
        raise failure(InputError, call, fact, "Run `pip install tqdm`.") from None

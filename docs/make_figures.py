"""The gallery: the order of its pages, and one style of figures for light and dark pages."""

from pathlib import Path

import matplotlib as mpl

GREY = "#777b84"  # of text and lines: a contrast of 4.2 on white and on the dark theme's page
STYLE = {
    "savefig.transparent": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "axes.titlecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.framealpha": 0.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": mpl.cycler(
        color=["#3f88c5", "#e07a3f", "#3d9970", "#9b6fc4", "#c9a227", "#c45b87"]
    ),
    "lines.linewidth": 1.8,
    "font.size": 11.0,
    "savefig.dpi": 160,
    "axes.titlesize": 11.0,
}


def by_field(name: str) -> int:
    """The position of an example in the table of the gallery's first page; others follow."""
    table = (Path(__file__).parents[1] / "examples" / "GALLERY_HEADER.txt").read_text("utf-8")
    place = table.find(f"<{Path(name).stem}>")
    return place if place >= 0 else len(table)


def reset(_: dict[str, object], __: str | Path) -> None:
    """Before each example."""
    mpl.rcdefaults()
    mpl.use("agg")
    mpl.rcParams.update(STYLE)

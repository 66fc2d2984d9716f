"""The one writer of SVG: elements as text, and the document around them."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable
from html import escape

import fdiff.intact_numpy as np

SANS = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
LETTER = 0.61  # the width of a letter of MONO, for a size of 1
# Filled areas: white text on them, and they on white or black, have a contrast of 4 and more.
COLOURS = ("#3b6fb6", "#b5533c", "#2f7d5b", "#7a5aa6", "#8a6d1f", "#a8487f", "#27788c", "#5f6b7a")
# A file on its own follows the theme of the reader; inside of a page it follows the page.
_THEMES = "<style>svg{color:#1f2328}@media (prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """An element; ``stroke_width=2`` is written ``stroke-width="2"``, numbers with two digits."""
    parts = [f' {key.strip("_").replace("_", "-")}="{_shown(v)}"' for key, v in attributes.items()]
    return f"<{tag}{''.join(parts)}>{content}</{tag}>" if content else f"<{tag}{''.join(parts)}/>"


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(str(value))


def text(words: str, x: float, y: float, size: float = 12.0, **attributes: object) -> str:
    """One line of text, which begins at `x` unless ``text_anchor`` says otherwise."""
    style = {"fill": "currentColor", **attributes}
    return element("text", escape(words), x=float(x), y=float(y), font_size=size, **style)


def titled(parts: Iterable[str], words: str) -> str:
    """Elements with a tooltip."""
    return element("g", element("title", escape(words)) + "".join(parts))


def shortened(words: str, letters: int) -> str:
    """The beginning of a text that is too long."""
    return words if len(words) <= letters else f"{words[: max(letters - 1, 0)]}…"


def bitmap(colours: np.ndarray, x: float, y: float, width: float, height: float) -> str:
    """A picture of pixels, of shape (rows, columns, 4) and uint8: red, green, blue, opacity."""
    data = b64encode(_png(colours)).decode()
    return element(
        "image", x=float(x), y=float(y), width=float(width), height=float(height),
        preserveAspectRatio="none", style="image-rendering:pixelated",
        href=f"data:image/png;base64,{data}",
    )  # fmt: skip


def _png(colours: np.ndarray) -> bytes:
    """The file of a picture (W3C, Portable Network Graphics, 2025, section 9.2: filter type 0)."""
    rows, columns, _ = colours.shape
    lines = np.zeros((rows, 1 + 4 * columns), np.uint8)
    lines[:, 1:] = colours.reshape(rows, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + head
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + chunk(b"IEND", b"")
    )


def document(parts: Iterable[str], width: float, height: float, *, alone: bool = False) -> str:
    """The picture; `alone` in a file of its own, which must choose the colour of its text."""
    return element(
        "svg", (_THEMES if alone else "") + "".join(parts), xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}", font_family=SANS,
        width=f"{width:.0f}", style="max-width:100%;height:auto",
    )  # fmt: skip

"""`NamedTuple` as in `typing`, whose classes are made in a third of the time.

`typing` compiles each annotation that is a text, for nobody: here they stay texts. A generic class
takes the one of `typing`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - for whoever imports it from here
else:
    _KEPT = frozenset(("__annotations__", "__module__"))  # of the class that `namedtuple` makes

    class _Maker(type):
        """Makes a class of `collections.namedtuple` of what a ``class`` statement says."""

        def __new__(cls, name: str, _bases: tuple[type, ...], names: dict[str, object]) -> type:
            fields = names["__annotations__"]
            defaults = [names[field] for field in fields if field in names]
            plain = namedtuple(name, fields, defaults=defaults, module=names["__module__"])  # noqa: PYI024 - see above
            plain.__annotations__ = fields
            for key, value in names.items():
                if key not in fields and key not in _KEPT:
                    setattr(plain, key, value)
            return plain

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})

"""An object that may have to end, although an earlier state has it."""

from __future__ import annotations

import weakref
from typing import Any

from ..statics import MISSING, address_of

_REFERENCES: Any = type.__dict__["__weakrefoffset__"].__get__


class Ending:
    """An object that a step does not keep alive, because something happens when it ends."""

    def __init__(self, value: Any) -> None:
        self.address = address_of(value)
        self._reference = weakref.ref(value) if _REFERENCES(type(value)) else None

    @property
    def ended(self) -> bool:
        """Whether it is known to have ended."""
        return self._reference is not None and self._reference() is None

    def value(self, now: Any) -> Any:
        """Return the object; `MISSING` if it has ended, or if nobody knows. now: what may still be
        the same object."""
        if self._reference is None:
            return now if address_of(now) == self.address else MISSING
        found = self._reference()
        return MISSING if found is None else found

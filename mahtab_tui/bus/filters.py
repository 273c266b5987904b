"""Selects the records that reach a handler."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Literal

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record


class TagFilter(logging.Filter):
    """Passes records with the given tags, or with all tags that `tags.ROUTES` sends along one route. Records without a tag count as notices."""

    def __init__(self, wanted: Literal["display", "prompt", "store"] | Iterable[str]) -> None:
        super().__init__()
        if isinstance(wanted, str):
            self.tags = frozenset(tag for tag, route in tags.ROUTES.items() if getattr(route, wanted))
        else:
            self.tags = frozenset(wanted)

    def filter(self, record: logging.LogRecord) -> bool:
        value = getattr(record, "record", None)
        return (value.tag if isinstance(value, Record) else tags.NOTICE) in self.tags

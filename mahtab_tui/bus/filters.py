"""Which records reach a handler."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Literal

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record


class TagFilter(logging.Filter):
    """Lets some tags through: those given, or all that `tags.ROUTES` sends along one route.

    Records without a tag count as notices; a tag that has no row goes nowhere.
    """

    def __init__(self, wanted: Literal["display", "prompt", "store"] | Iterable[str]) -> None:
        super().__init__()
        if isinstance(wanted, str):
            self.tags = frozenset(tag for tag, route in tags.ROUTES.items() if getattr(route, wanted))
        else:
            self.tags = frozenset(wanted)

    def filter(self, record: logging.LogRecord) -> bool:
        said = getattr(record, "record", None)
        return (said.tag if isinstance(said, Record) else tags.NOTICE) in self.tags

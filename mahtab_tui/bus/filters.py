"""Which records a handler takes."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Literal

from mahtab_tui.bus.records import Record
from mahtab_tui.bus.tags import ROUTES


class TagFilter(logging.Filter):
    """Lets through records of some tags: those given, or those that the routing table sends one way."""

    def __init__(self, wanted: Collection[str] | Literal["display", "prompt", "store"]) -> None:
        super().__init__()
        self.tags = (
            frozenset(tag for tag, route in ROUTES.items() if getattr(route, wanted))
            if isinstance(wanted, str)
            else frozenset(wanted)
        )

    def filter(self, record: logging.LogRecord) -> bool:
        return Record.of(record).tag in self.tags

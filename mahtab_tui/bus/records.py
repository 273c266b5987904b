"""A record of the bus as a value, and how one is logged."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that happened: what the panes, the prompt and the store are made of."""

    tag: str
    """A constant of `bus.tags`."""
    text: str
    attrs: dict[str, Any] = field(default_factory=dict)
    """JSON values; `bus.tags` says which for each tag."""
    time: float = 0.0
    """When it was logged, in seconds since the epoch."""

    @classmethod
    def of(cls, record: logging.LogRecord) -> Record:
        """The value of a record that `emit` logged; other records are of tag ``notice``."""
        tag = getattr(record, "tag", None)
        if tag is None:
            level = "error" if record.levelno >= logging.ERROR else "warning" if record.levelno >= logging.WARNING else "info"
            return cls("notice", record.getMessage(), {"level": level}, record.created)
        return cls(tag, str(record.msg), getattr(record, "attrs", {}), record.created)


def emit(log: logging.Logger, tag: str, text: str = "", /, **attrs: Any) -> None:
    """Log one tagged record. Any thread may call it."""
    log.info(text, extra={"tag": tag, "attrs": attrs})

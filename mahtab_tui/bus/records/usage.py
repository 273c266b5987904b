"""The records of what model calls use: tokens, dollars, and the model's window."""

from __future__ import annotations

from typing import Annotated

from mahtab_tui.bus.marks import NULL, Flag, Word
from mahtab_tui.bus.records.record import Record


class Window(Record, tag="window", in_store=False):
    """How full the model's window is. A resumed session may have another window."""

    tokens: int = 0
    """Tokens of the last request as counted by the model, or an estimate for the next one."""
    size: int = 0
    """Tokens that the window holds."""
    estimated: Flag = False
    """Whether the tokens were not counted by the model."""


class Usage(Record, tag="usage"):
    """The usage of one model call."""

    tree: Word | None = None
    """The id of the search, for a call by one. This and the next two fields are as in
    `SearchRecord`."""
    node: Word | None = None
    seq: int | None = None
    turn: int | None = None
    """The question, or the turn of a search's node."""
    model: Word = ""
    """The provider's name for the model; for an embedding model, with the provider ("openai:…")."""
    input_tokens: int = 0
    """All input tokens, including those read from or written to the cache."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost: Annotated[float | None, NULL] = None
    """US dollars; None if the price is unknown."""
    source: Word | None = None
    """One of "agent", "reflection", "summary", "embedding" and "rlm"."""
    estimated: Flag = False

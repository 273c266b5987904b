"""Parts of the next question to the model, and how each can be shortened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_PARTS = {
    "program": ("How to work here", ""),
    "instructions": ("Your instructions", "/instructions"),
    "skills": ("Names of skills", "/skills"),
    "loaded-skills": ("Loaded skills", "/unload"),
    "mcp-servers": ("MCP servers", "/mcp"),
    "earlier-conversation": ("Summary of earlier questions", "/compact"),
    "words": ("Questions, answers, code", "/compact, or m on it"),
    "outputs": ("Outputs of cells", "/compact, or m on it"),
    "variables": ("Variables", "del, or call it _name"),
    "attachments": ("Attached texts", "m in the entry's menu"),
    "pictures": ("Pictures", "m in the entry's menu"),
}
"""Name of each part, and what shortens it."""


class ContextPart(NamedTuple):
    name: str
    tokens: int
    advice: str
    """Way to shorten it; empty if there is none."""


class ContextUse(NamedTuple):
    """Use of the model's window."""

    room: int
    """Tokens that may be sent."""
    parts: tuple[ContextPart, ...]

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


def context_use(room: int, sizes: Mapping[str, int]) -> ContextUse:
    """Describe sizes, from `ReplAgent.context_sizes`."""
    return ContextUse(
        room,
        tuple(
            ContextPart(name, sizes[key], advice)
            for key, (name, advice) in _PARTS.items()
            if sizes.get(key)
        ),
    )

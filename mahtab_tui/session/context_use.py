"""How a question fills the model's context window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_CONTEXT_SECTIONS = {
    "program": ("How to work here", ""),
    "instructions": ("Your instructions", "/instructions"),
    "skills": ("Names of skills", "/skills"),
    "loaded-skills": ("Loaded skills", "/skills"),
    "mcp-servers": ("MCP servers", "/mcp"),
    "earlier-conversation": ("Summary of earlier questions", "/compact"),
    "words": ("Questions, answers, code", "/compact, or m on it"),
    "outputs": ("Outputs of cells", "/compact, or m on it"),
    "variables": ("Variables", "del, or call it _name"),
    "attachments": ("Attached texts", "m in the entry's menu"),
    "pictures": ("Pictures", "m in the entry's menu"),
}
"""Each section's name for the user, and how the user can shorten it, by the section's key."""


class ContextPart(NamedTuple):
    """A section of what the next question sends to the model."""

    name: str
    tokens: int
    advice: str
    """How to shorten it; empty if the user cannot."""


class ContextUse(NamedTuple):
    """How the next question uses the model's context window."""

    max_tokens: int
    """Tokens that may be sent."""
    parts: tuple[ContextPart, ...]

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


def context_use(max_tokens: int, section_tokens: Mapping[str, int]) -> ContextUse:
    """Name the sections of a context. Empty ones are left out.

    Args:
        max_tokens: The tokens that may be sent.
        section_tokens: The tokens of each section, by its key.
    """
    parts: list[ContextPart] = []
    for key, (name, advice) in _CONTEXT_SECTIONS.items():
        tokens = section_tokens.get(key, 0)
        if tokens:
            parts.append(ContextPart(name, tokens, advice))
    return ContextUse(max_tokens, tuple(parts))

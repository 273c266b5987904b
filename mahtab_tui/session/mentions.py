"""What a question mentions, and what the user types of it: ``@file``, ``$variable``,
``@cell:3``."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

MIN_LARGE_LINES = 50
"""The editor collapses a pasted text with at least this many line breaks."""
MAX_SMALL_CHARS = 10_000
"""A longer pasted text is collapsed even if it has few lines."""
_MAX_PARTIAL_CHARS = 1_000
"""Characters before the cursor to search for the start of a mention."""
_MENTION = re.compile(
    r"""(?<![^\s(\[{,;"'])(?:
        @"(?P<quoted>[^"\n]+)"
      | @(?P<path>[^\s"'`]+)
      | \$(?P<name>[^\W\d]\w*)
    )""",
    re.VERBOSE,
)
_UNQUOTED_PATH = re.compile(r"""[^\s"'`]*[^\s"'`:.,;!?)\]}>]""")
"""A path that needs no quotation marks in a mention."""
_PARTIAL_MENTION = re.compile(
    r"""(?:^|(?<=[\s(\[{,;"']))(?:@"(?P<quoted>[^"\n]*)|@(?P<path>[^\s"'`]*)|\$(?P<name>\w*))$"""
)
_CLOSING_PUNCTUATION = ".,;:!?)]}>"
"""Characters that end a sentence rather than a path."""


class Mention(NamedTuple):
    """A file or a variable that a question names with ``@`` or ``$``."""

    kind: Literal["path", "variable"]
    name: str

    @property
    def label(self) -> str:
        """The mention as the user would write it."""
        if self.kind == "variable":
            return f"${self.name}"
        if _UNQUOTED_PATH.fullmatch(self.name):
            return f"@{self.name}"
        return f'@"{self.name}"'


def find_mentions(question: str) -> list[Mention]:
    """Return the mentions in order, without duplicates.

    They need not exist: an ``@`` may also be a decorator.
    """
    mentions: dict[Mention, None] = {}
    for match in _MENTION.finditer(question):
        if match["name"]:
            mention = Mention("variable", match["name"])
        else:
            path = match["quoted"] or match["path"].rstrip(_CLOSING_PUNCTUATION)
            mention = Mention("path", path)
        if mention.name:
            mentions[mention] = None
    return list(mentions)


def is_large(text: str) -> bool:
    """Return whether the editor collapses a pasted text."""
    return text.count("\n") >= MIN_LARGE_LINES or len(text) > MAX_SMALL_CHARS


class PartialMention(NamedTuple):
    """A mention that the user is typing."""

    kind: Literal["path", "variable"]
    stem: str
    """What is typed so far, without the sign."""
    quoted: bool


def partial_mention(text: str) -> PartialMention | None:
    """Return the mention that is typed at the end of a text, if any."""
    match = _PARTIAL_MENTION.search(text, max(0, len(text) - _MAX_PARTIAL_CHARS))
    if match is None:
        return None
    if match["name"] is not None:
        return PartialMention("variable", match["name"], quoted=False)
    if match["quoted"] is not None:
        return PartialMention("path", match["quoted"], quoted=True)
    return PartialMention("path", match["path"], quoted=False)


class MentionChip(NamedTuple):
    """The preview of a mention, below the editor."""

    label: str
    size: str
    """A file's size, a variable's type and shape, or why it is missing, in words."""
    missing: bool = False
    picture: bool = False

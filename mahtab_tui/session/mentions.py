"""Parses the mentions in a question: ``@path``, ``@path:10-40``, ``$name``, ``!`command` ``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_MENTION = re.compile(
    r"""(?<![^\s(\[{,;"'])(?:
        @"(?P<quoted>[^"\n]+)"(?P<quoted_range>:[0-9]{1,9}(?:-[0-9]{0,9})?(?![0-9]))?
      | @(?P<path>[^\s"'`]+)
      | \$(?P<name>[^\W\d]\w*)
      | !`(?P<command>[^`\n]+)`
    )""",
    re.VERBOSE,
)
_RANGE = re.compile(r":([0-9]{1,9})(?:-([0-9]{0,9}))?$")
_UNQUOTED = re.compile(r"""[^\s"'`:]*[^\s"'`:.,;!?)\]}>]""")
_BEGUN = re.compile(
    r"""(?:^|(?<=[\s(\[{,;"']))(?:@"(?P<quoted>[^"\n]*)|@(?P<path>[^\s"'`]*)|\$(?P<name>\w*))$"""
)
_CLOSING = ".,;:!?)]}>"
LINES, CHARACTERS = 50, 10_000
"""A text with more lines or characters is large."""
_LONGEST_BEGUN = 1_000
"""Characters before the cursor that are searched for the start of a mention."""


class Mention(NamedTuple):
    kind: Literal["path", "variable", "command"]
    name: str
    """The path, the variable's name, or the command."""
    start: int | None = None
    end: int | None = None
    """First and last line of a file, from 1; None for the whole file, or up to its end."""

    @property
    def label(self) -> str:
        """The mention as the user writes it."""
        if self.kind == "variable":
            return f"${self.name}"
        if self.kind == "command":
            return f"!`{self.name}`"
        lines = (
            ""
            if self.start is None
            else f":{self.start}"
            if self.end == self.start
            else f":{self.start}-{'' if self.end is None else self.end}"
        )
        name = self.name if _UNQUOTED.fullmatch(self.name) else f'"{self.name}"'
        return f"@{name}{lines}"


def mentions(question: str) -> list[Mention]:
    """Return the mentions in a question, each once, in order. They may not exist: an ``@`` may also
    be a decorator."""
    return list(dict.fromkeys(_found(question)))


def _found(question: str) -> Iterator[Mention]:
    for found in _MENTION.finditer(question):
        if found["name"]:
            yield Mention("variable", found["name"])
        elif found["command"]:
            if command := found["command"].strip():
                yield Mention("command", command)
        elif found["quoted"]:
            yield _path(found["quoted"], found["quoted_range"] or "")
        elif path := found["path"].rstrip(_CLOSING):
            lines = _RANGE.search(path)
            yield (
                _path(path[: lines.start()], lines[0])
                if lines and lines.start()
                else _path(path, "")
            )


def _path(path: str, lines: str) -> Mention:
    found = _RANGE.fullmatch(lines)
    if found is None:
        return Mention("path", path)
    start = max(1, int(found[1]))
    end = start if found[2] is None else int(found[2]) if found[2] else None
    return Mention("path", path, start, end)


def is_large(text: str) -> bool:
    """Return whether a text is so large that the editor shows it as one word when it is pasted."""
    return text.count("\n") >= LINES or len(text) > CHARACTERS


class MentionChip(NamedTuple):
    """The preview of a mention before the question is sent."""

    label: str
    size: str
    """In words; for a variable, its type and shape."""
    missing: bool = False
    picture: bool = False
    """Whether it is sent as a picture too."""


class PartialMention(NamedTuple):
    """A mention that is still being typed."""

    kind: Literal["path", "variable"]
    stem: str
    quoted: bool


def mention_before(text: str) -> PartialMention | None:
    """Return the mention at the end of the text before the cursor, if any."""
    found = _BEGUN.search(text, max(0, len(text) - _LONGEST_BEGUN))
    if found is None:
        return None
    if found["name"] is not None:
        return PartialMention("variable", found["name"], quoted=False)
    quoted = found["quoted"]
    return (
        PartialMention("path", found["path"], quoted=False)
        if quoted is None
        else PartialMention("path", quoted, quoted=True)
    )

"""What a question points at: ``@path``, ``@path:10-40``, ``$name``, ``!`command` ``."""

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
_BEGUN = re.compile(r"""(?:^|(?<=[\s(\[{,;"']))(?:@"(?P<quoted>[^"\n]*)|@(?P<path>[^\s"'`]*)|\$(?P<name>\w*))$""")
_CLOSING = ".,;:!?)]}>"
LINES, CHARACTERS = 50, 10_000
"""A text with more of either is large."""
_LONGEST_BEGUN = 1_000
"""Characters before the cursor in which a mention may have begun: each ``@`` among them is tried."""


class Mention(NamedTuple):
    """One of them."""

    kind: Literal["path", "variable", "command"]
    name: str
    """The path, the variable's name, the command."""
    start: int | None = None
    end: int | None = None
    """Lines of a file, from 1, the last included; None: from the beginning, to the end."""

    @property
    def label(self) -> str:
        """As a person writes it."""
        if self.kind == "variable":
            return f"${self.name}"
        if self.kind == "command":
            return f"!`{self.name}`"
        lines = "" if self.start is None else f":{self.start}" if self.end == self.start else f":{self.start}-{'' if self.end is None else self.end}"
        name = self.name if _UNQUOTED.fullmatch(self.name) else f'"{self.name}"'
        return f"@{name}{lines}"


def mentions(question: str) -> list[Mention]:
    """What a question points at, each once, in order. Whether it is there is not known yet: an ``@`` may also be a decorator's."""
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
            yield _path(path[: lines.start()], lines[0]) if lines and lines.start() else _path(path, "")


def _path(path: str, lines: str) -> Mention:
    found = _RANGE.fullmatch(lines)
    if found is None:
        return Mention("path", path)
    start = max(1, int(found[1]))
    end = start if found[2] is None else int(found[2]) if found[2] else None
    return Mention("path", path, start, end)


def is_large(text: str) -> bool:
    """Whether a text is too large to be read at a glance: pasted, it stands in the editor as one word."""
    return text.count("\n") >= LINES or len(text) > CHARACTERS


class Chip(NamedTuple):
    """What is shown of a mention before the question is sent."""

    label: str
    size: str
    """In words: of a variable its type and shape."""
    missing: bool = False
    picture: bool = False
    """It goes as a picture, too."""


class Begun(NamedTuple):
    """A mention whose end is still being typed."""

    kind: Literal["path", "variable"]
    stem: str
    quoted: bool


def begun(text: str) -> Begun | None:
    """What the text before the cursor has begun; None where it is no mention."""
    found = _BEGUN.search(text, max(0, len(text) - _LONGEST_BEGUN))
    if found is None:
        return None
    if found["name"] is not None:
        return Begun("variable", found["name"], quoted=False)
    quoted = found["quoted"]
    return Begun("path", found["path"], quoted=False) if quoted is None else Begun("path", quoted, quoted=True)

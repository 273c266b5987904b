"""A model's answer while it comes: what the panes draw, before it is known what will run."""

from __future__ import annotations

import logging
import re
from typing import Any, Literal

from mahtab_tui.bus import tags
from mahtab_tui.bus.fences import inside_string, is_python
from mahtab_tui.bus.records import emit

Kind = Literal["chat", "code"]

_TAG = re.compile(r"<(/?)assistant-(chat|repl-in)(?:\s[^<>\n]*)?>")
_TAG_STARTS = ("<assistant-chat", "</assistant-chat", "<assistant-repl-in", "</assistant-repl-in")
_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})([^\n]*)")
_MAYBE_FENCE = re.compile(r" {0,3}(?:`{1,2}|~{1,2})?\Z| {0,3}(?:`{3,}|~{3,})[^\n]*\Z")
_CLOSE_TAG = "</assistant-repl-in>"
_LONGEST_TAG = 200


class StreamingHandler:
    """Takes tokens split anywhere and logs ``assistant-chat-stream`` records with `kind` and `block`.

    Only what could still become a tag or a fence is held back. It works line by line: the beginning of a line decides.
    """

    def __init__(self, log: logging.Logger, **attrs: Any) -> None:
        self._log = log
        self._attrs = attrs
        self._pending = ""
        self._line_start = True
        self._kind: Kind = "chat"
        self._block = 0
        self._fence = ""
        """What closes the fenced block that is open; empty where none is, or a tag opened it."""
        self._foreign = ""
        """The same for a fence of another language, which stays part of the words."""
        self._code: list[str] = []

    def process_token(self, token: str) -> None:
        """Take the next piece of the answer."""
        self._pending += token
        while self._step(final=False):
            pass

    def flush(self) -> None:
        """The answer has ended: nothing is held back any more."""
        while self._step(final=True):
            pass
        self._say(self._pending)
        self._pending = ""

    def _step(self, *, final: bool) -> bool:
        """Deal with the beginning of what is pending; False where more must come first."""
        if not self._pending:
            return False
        if self._kind == "code" and not self._fence:
            return self._in_tag(final=final)
        if self._line_start and self._at_line_start(final=final) is not None:
            return bool(self._consumed)
        return self._within_line(final=final)

    _consumed = False

    def _at_line_start(self, *, final: bool) -> bool | None:
        """Fences; None where the line is an ordinary one."""
        line, newline, rest = self._pending.partition("\n")
        complete = bool(newline) or final
        if not complete and _MAYBE_FENCE.match(line):
            self._consumed = False
            return False
        matched = _FENCE.match(line)
        if matched is None or not complete:
            return None
        marks, info = matched[2], matched[3]
        taken = self._foreign_fence(marks, info) if self._foreign or self._kind == "chat" else self._python_fence(marks, info)
        if taken is None:
            return None
        if taken == "drop":
            self._pending = rest
        else:
            self._say(line + newline)
            self._pending = rest
        self._line_start = True
        self._consumed = True
        return True

    def _foreign_fence(self, marks: str, info: str) -> str | None:
        if self._foreign:
            if marks[0] == self._foreign[0] and len(marks) >= len(self._foreign) and not info.strip():
                self._foreign = ""
            return "say"
        if marks[0] == "`" and "`" in info:
            return None
        if is_python(info):
            self._begin_code(marks)
            return "drop"
        self._foreign = marks
        return "say"

    def _python_fence(self, marks: str, info: str) -> str | None:
        if marks[0] != self._fence[0] or len(marks) < len(self._fence) or info.strip() or inside_string("".join(self._code)):
            return None
        self._end_code()
        return "drop"

    def _within_line(self, *, final: bool) -> bool:
        """Words, or a line of code, up to its end or to a tag."""
        line, newline, rest = self._pending.partition("\n")
        if self._kind == "chat" and not self._foreign:
            return self._words(line, newline, rest, final=final)
        if not line and not newline:
            return False
        self._say(line + newline)
        self._pending = rest
        self._line_start = bool(newline)
        return bool(rest)

    def _words(self, line: str, newline: str, rest: str, *, final: bool) -> bool:
        matched = _TAG.search(line)
        if matched is not None:
            self._say(line[: matched.start()])
            self._pending = line[matched.end() :] + newline + rest
            self._line_start = False
            if matched[2] == "repl-in" and not matched[1]:
                self._begin_code("")
            return bool(self._pending)
        keep = "" if newline or final else _possible_tag(line)
        said = line[: len(line) - len(keep)] + newline
        if not said:
            return False
        self._say(said)
        self._pending = keep + rest
        self._line_start = bool(newline)
        return bool(rest)

    def _in_tag(self, *, final: bool) -> bool:
        """Code between tags, up to the closing one; the line break after the opening one is not part of it."""
        if not self._code and self._pending.startswith("\n"):
            self._pending = self._pending[1:]
            self._code.append("")
        before, closing, rest = self._pending.partition(_CLOSE_TAG)
        if closing:
            self._say(before)
            self._end_code()
            self._pending, self._line_start = rest, False
            return bool(rest)
        keep = "" if final else next((_CLOSE_TAG[:n] for n in range(len(_CLOSE_TAG), 0, -1) if before.endswith(_CLOSE_TAG[:n])), "")
        self._say(before[: len(before) - len(keep)])
        self._pending = keep
        return False

    def _begin_code(self, fence: str) -> None:
        self._kind, self._fence, self._code = "code", fence, []

    def _end_code(self) -> None:
        self._kind, self._fence = "chat", ""
        self._block += 1

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._kind == "code":
            self._code.append(text)
        emit(self._log, tags.ASSISTANT_CHAT_STREAM, text, **self._attrs, kind=self._kind, block=self._block)


def _possible_tag(line: str) -> str:
    """The end of a line that may yet become one of our tags."""
    start = line.rfind("<")
    if start < 0:
        return ""
    tail = line[start:]
    if len(tail) > _LONGEST_TAG:
        return ""
    if any(name.startswith(tail) for name in _TAG_STARTS) or (tail.startswith(_TAG_STARTS) and ">" not in tail):
        return tail
    return ""

"""Prepares pasted text for the editor, and collapses large ones to one word each."""

from __future__ import annotations

import re
import textwrap

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.worker.habits.lines import is_python
from mahtab_tui.session.mentions import is_large
from mahtab_tui.tui.panes.editor.line_breaks import STEP
from mahtab_tui.tui.panes.editor.pieces import bare, outside_of_strings

_SESSION = re.compile(r">>>(?: |$)|In \[\d+\]:", re.MULTILINE)
_PROMPT = re.compile(r"(?:>>>|\.\.\.)(?: |$)|(?:In \[\d+\]| +\.\.\.): ?")
_FENCE = re.compile(r"\s*+(`{3,}+|~{3,}+)[^`\n]*+")
_LEADING_TABS = re.compile(r"^[ \t]*\t", re.MULTILINE)


def clean(text: str) -> str:
    """Remove control characters, and convert line breaks to ``\\n``."""
    return plain(text.replace("\r\n", "\n").replace("\r", "\n"))


def pasted_python(text: str, *, into_empty: bool) -> str:
    """Prepare Python from anywhere: indent by spaces, and remove prompts and fences; a session's
    output and text between fences become comments.

    into_empty: also remove the indentation common to all lines.
    """
    text = _LEADING_TABS.sub(lambda tabs: tabs[0].expandtabs(len(STEP)), clean(text))
    text = _without_fences(text)
    dedented = textwrap.dedent(text)
    if _SESSION.match(dedented.lstrip("\n")):
        return "\n".join(map(_without_prompt, dedented.strip("\n").split("\n")))
    return dedented if into_empty else text


def _without_prompt(line: str) -> str:
    if prompt := _PROMPT.match(line):
        return line[prompt.end() :]
    return f"# {line}" if line.strip() else ""


def _without_fences(text: str) -> str:
    """Return the code of a Markdown text that starts with a fence, or whose only fence is its last
    line; otherwise the text."""
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled or not (_FENCE.fullmatch(lines[filled[0]]) or lines[filled[-1]].strip() == "```"):
        return text
    if not _FENCE.fullmatch(lines[filled[0]]):
        return (
            "\n".join(lines[: filled[-1]])
            if sum(bool(_FENCE.fullmatch(line)) for line in lines) == 1
            else text
        )
    code: list[str] = []
    fence = ""  # of the open block
    for line in lines[filled[0] :]:
        found = _FENCE.fullmatch(line)
        if found and not fence:
            fence = found[1]
        elif found and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        else:
            code.append(line if fence or not line.strip() else f"# {line}")
    return "\n".join(code).strip("\n") or text


_STRAIGHT = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201a": "'",
        "\u201b": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "\u201f": '"',
    }
)
_CURLY = re.compile(f"[{''.join(map(chr, _STRAIGHT))}]")
LONG = 100_000
"""A longer text, in characters, is not parsed at each key."""


def has_curly_quotes(text: str) -> bool:
    """Return whether there are curly quotes outside of strings and comments; in a long text,
    anywhere."""
    found = _CURLY.search(text) is not None
    return found and (len(text) > LONG or _CURLY.search(bare(text)) is not None)


def straightened(text: str) -> str:
    """Make quotes straight; those inside strings stay if the result is valid Python."""
    outside = outside_of_strings(text, lambda piece: piece.translate(_STRAIGHT))
    return outside if is_python(outside) else text.translate(_STRAIGHT)


class Pastes:
    """The collapsed texts, by their words."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
        """Return a new word for a text; the text itself if it is not large."""
        if not is_large(text):
            return text
        lines = text.count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        word, number = f"[Pasted {size}]", 1
        while self._texts.get(word, text) != text:
            number += 1
            word = f"[Pasted {size}, {number}]"
        self._texts[word] = text
        return word

    def expand(self, text: str) -> str:
        """Replace all words by their texts."""
        # In one pass: a pasted text may contain the word of another one.
        words = "|".join(map(re.escape, self._texts))
        return re.sub(words, lambda word: self._texts[word[0]], text) if words else text

    def word_at(self, text: str, *, end: bool) -> str:
        """Return the word with which a text starts, or with which it ends; empty if none."""
        return next(
            (
                word
                for word in self._texts
                if (text.endswith(word) if end else text.startswith(word))
            ),
            "",
        )

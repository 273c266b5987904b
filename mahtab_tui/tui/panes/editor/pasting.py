"""A pasted text as it is put into the editor."""

from __future__ import annotations

import re
import textwrap

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.worker.habits.lines import is_python
from mahtab_tui.tui.panes.editor.line_breaks import STEP
from mahtab_tui.tui.panes.editor.pieces import bare, outside_of_strings

_SESSION = re.compile(r">>>(?: |$)|In \[\d+\]:", re.MULTILINE)
_PROMPT = re.compile(r"(?:>>>|\.\.\.)(?: |$)|(?:In \[\d+\]| +\.\.\.): ?")
_FENCE = re.compile(r"\s*+(`{3,}+|~{3,}+)[^`\n]*+")
_LEADING_TABS = re.compile(r"^[ \t]*\t", re.MULTILINE)


def clean(text: str) -> str:
    """Without control characters, and with line breaks of one kind."""
    return plain(text.replace("\r\n", "\n").replace("\r", "\n"))


def pasted_python(text: str, *, into_empty: bool) -> str:
    """Python from anywhere: indented by spaces, without prompts and fences (what a session had answered, and what stands between fenced
    blocks, becomes comments), and, where it comes to stand alone, without the indentation common to all lines."""
    text = _LEADING_TABS.sub(lambda tabs: tabs[0].expandtabs(len(STEP)), clean(text))
    text = _without_fences(text)
    dedented = textwrap.dedent(text)
    if _SESSION.match(dedented.lstrip("\n")):
        return "\n".join(map(_without_prompt, dedented.strip("\n").split("\n")))
    return dedented if into_empty else text


def _without_prompt(line: str) -> str:
    prompt = _PROMPT.match(line)
    if prompt:
        return line[prompt.end() :]
    return f"# {line}" if line.strip() else ""


def _without_fences(text: str) -> str:
    """The code of a Markdown text that begins with a fence, or of one that ends with a last fence alone; else the text."""
    lines = text.split("\n")
    said = [number for number, line in enumerate(lines) if line.strip()]
    if not said or not (_FENCE.fullmatch(lines[said[0]]) or lines[said[-1]].strip() == "```"):
        return text
    if not _FENCE.fullmatch(lines[said[0]]):
        return "\n".join(lines[: said[-1]]) if sum(bool(_FENCE.fullmatch(line)) for line in lines) == 1 else text
    code: list[str] = []
    fence = ""
    """What ends the block that is open."""
    for line in lines[said[0] :]:
        found = _FENCE.fullmatch(line)
        if found and not fence:
            fence = found[1]
        elif found and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        else:
            code.append(line if fence or not line.strip() else f"# {line}")
    return "\n".join(code).strip("\n") or text


_STRAIGHT = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u201f": '"'})
_CURLY = re.compile(f"[{''.join(map(chr, _STRAIGHT))}]")
LONG = 100_000
"""Characters of a text that is not taken apart at each key."""


def has_curly_quotes(text: str) -> bool:
    """Whether quotes that Python does not read stand where it wants some: outside of its strings and comments. Of a long text: anywhere."""
    found = _CURLY.search(text) is not None
    return found and (len(text) > LONG or _CURLY.search(bare(text)) is not None)


def straightened(text: str) -> str:
    """The text with straight quotes. Those inside of its strings stay, where that makes Python of it."""
    outside = outside_of_strings(text, lambda piece: piece.translate(_STRAIGHT))
    return outside if is_python(outside) else text.translate(_STRAIGHT)

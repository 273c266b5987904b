"""A pasted text as it is put into the editor."""

from __future__ import annotations

import re
import textwrap

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.panes.editor.indent import STEP

_SESSION = re.compile(r">>>(?: |$)|In \[\d+\]:", re.MULTILINE)
_PROMPT = re.compile(r"(?:>>>|\.\.\.)(?: |$)|(?:In \[\d+\]| +\.\.\.): ?")
_LEADING_TABS = re.compile(r"^[ \t]*\t", re.MULTILINE)


def clean(text: str) -> str:
    """Without control characters, and with line breaks of one kind."""
    return plain(text.replace("\r\n", "\n").replace("\r", "\n"))


def pasted_python(text: str, *, into_empty: bool) -> str:
    """Python from anywhere: indented by spaces, without prompts (what a session had answered becomes comments), and, where it comes to stand alone,
    without the indentation common to all lines."""
    text = _LEADING_TABS.sub(lambda tabs: tabs[0].expandtabs(len(STEP)), clean(text))
    dedented = textwrap.dedent(text)
    if _SESSION.match(dedented.lstrip("\n")):
        return "\n".join(map(_without_prompt, dedented.strip("\n").split("\n")))
    return dedented if into_empty else text


def _without_prompt(line: str) -> str:
    prompt = _PROMPT.match(line)
    if prompt:
        return line[prompt.end() :]
    return f"# {line}" if line.strip() else ""

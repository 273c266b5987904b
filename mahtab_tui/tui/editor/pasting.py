"""Line breaks, indentation and collapsed pastes in the editor."""

from __future__ import annotations

import ast
import codeop
import re
import textwrap
import warnings

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.session.attachments import is_large
from mahtab_tui.tui.editor.code_area import (
    STEP,
    find_source_spans,
    map_outside_strings,
    strip_literals,
)
from mahtab_tui.worker.magics import parse_python, transform

_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | codeop.PyCF_ALLOW_INCOMPLETE_INPUT  # type: ignore[attr-defined]
_LEAVES_BLOCK = re.compile(r"\s*(?:return|pass|break|continue|raise)\b")

_WHOLE_CELL = re.compile(r"\s*%%")
_TIMED = re.compile(r"\s*%%time(?:it)?\b.*\n")
"""Their body is Python."""


def is_complete(source: str) -> bool:
    """Return whether Enter should run a cell; invalid code is complete. A block or a ``%%magic``
    ends with an empty line."""
    if _WHOLE_CELL.match(source) and not _TIMED.match(source):
        return "\n" in source.strip() and not source.rpartition("\n")[2].strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree: ast.Module = compile(
                transform(source), "<input>", "exec", _FLAGS, dont_inherit=True
            )
    except SyntaxError as error:
        return "incomplete input" not in str(error)
    except (ValueError, RecursionError, MemoryError, SystemError):
        # A NUL; nesting too deep; another thread is parsing (3.11).
        return True
    last = tree.body[-1] if tree.body else None
    is_block = hasattr(last, "body") or hasattr(last, "cases")
    return not (is_block and source.rpartition("\n")[2].strip())


def next_indent(before: str) -> str:
    start = before.rfind("\n") + 1
    # A string or bracket that ends on this line belongs to the line on which it starts.
    for span in sorted(find_source_spans(before), reverse=True):
        if span.start < start <= span.end:
            start = before.rfind("\n", 0, span.start) + 1
    statement = before[start:]
    indent = statement[: len(statement) - len(statement.lstrip())]
    if strip_literals(statement).rstrip().endswith((":", "(", "[", "{")):
        return indent + STEP
    if _LEAVES_BLOCK.match(statement):
        return indent[: -len(STEP)]
    return indent


_SESSION = re.compile(r">>>(?: |$)|In \[\d+\]:", re.MULTILINE)
_PROMPT = re.compile(r"(?:>>>|\.\.\.)(?: |$)|(?:In \[\d+\]| +\.\.\.): ?")
_FENCE = re.compile(r"\s*+(`{3,}+|~{3,}+)[^`\n]*+")
_LEADING_TABS = re.compile(r"^[ \t]*\t", re.MULTILINE)


def clean(text: str) -> str:
    return plain(text.replace("\r\n", "\n").replace("\r", "\n"))


def prepare_pasted_python(text: str, *, into_empty: bool) -> str:
    """Prepare Python copied from anywhere: indent with spaces, remove prompts and fences; other
    text becomes comments. into_empty: also dedent."""
    text = _LEADING_TABS.sub(lambda tabs: tabs[0].expandtabs(len(STEP)), clean(text))
    text = _strip_fences(text)
    dedented = textwrap.dedent(text)
    if _SESSION.match(dedented.lstrip("\n")):
        return "\n".join(map(_strip_prompt, dedented.strip("\n").split("\n")))
    return dedented if into_empty else text


def _strip_prompt(line: str) -> str:
    if prompt := _PROMPT.match(line):
        return line[prompt.end() :]
    return f"# {line}" if line.strip() else ""


def _strip_fences(text: str) -> str:
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if not _FENCE.fullmatch(lines[start]):
        return text
    code: list[str] = []
    fence = ""  # of the open code block
    for line in lines[start:]:
        found = _FENCE.fullmatch(line)
        if found and not fence:
            fence = found[1]
        elif found and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        else:
            code.append(line if fence or not line.strip() else f"# {line}")
    return "\n".join(code).strip("\n") or text


_STRAIGHT = str.maketrans("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f", "'" * 4 + '"' * 4)
_CURLY = re.compile(f"[{''.join(map(chr, _STRAIGHT))}]")
LONG = 100_000


def has_curly_quotes(text: str) -> bool:
    """Return whether there are curly quotes outside strings and comments; in a long text,
    anywhere."""
    found = _CURLY.search(text) is not None
    return found and (len(text) > LONG or _CURLY.search(strip_literals(text)) is not None)


def straighten_quotes(text: str) -> str:
    """Straighten quotes, inside strings only if it would be invalid otherwise."""
    outside = map_outside_strings(text, lambda piece: piece.translate(_STRAIGHT))
    return outside if parse_python(outside) else text.translate(_STRAIGHT)


class Pastes:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
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
        # In one pass, because a pasted text may contain the placeholder of another one.
        words = "|".join(map(re.escape, self._texts))
        return re.sub(words, lambda word: self._texts[word[0]], text) if words else text

    def word_at(self, text: str, *, end: bool) -> str:
        matches = text.endswith if end else text.startswith
        return next(filter(matches, self._texts), "")

"""The editor's text: complete inputs, indentation, pasted Python, prose and code."""

from __future__ import annotations

import ast
import codeop
import re
import textwrap
import warnings
from collections import deque
from typing import NamedTuple

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.editor.code_area import STEP
from mahtab_tui.worker.magics import parse_python, transform

_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | codeop.PyCF_ALLOW_INCOMPLETE_INPUT  # type: ignore[attr-defined]
_LEAVES_BLOCK = re.compile(r"\s*(?:return|pass|break|continue|raise)\b")

_WHOLE_CELL = re.compile(r"\s*%%")
_TIMED = re.compile(r"\s*%%time(?:it)?\b.*\n")


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


_PIECE = re.compile(
    r'(?P<string>"""(?:[^\\]|\\.)*?(?:"""|\\?\Z)|' + r"'''(?:[^\\]|\\.)*?(?:'''|\\?\Z)|"
    r'"(?:[^"\\\n]|\\.)*"?|'
    + r"'(?:[^'\\\n]|\\.)*'?)|(?P<comment>#[^\n]*)|(?P<bracket>[()\[\]{}])",
    re.DOTALL,
)


def strip_literals(text: str) -> str:
    return _PIECE.sub(lambda piece: '""' if piece["string"] else piece["bracket"] or "", text)


class OpenCode(NamedTuple):
    """The last statement of a text, and its open brackets."""

    bracket_indents: list[int]
    """For each open bracket, the columns by which its line is indented; the innermost is last."""
    first_line: str
    """The first line of the statement, without strings and comments."""
    last_line: str
    """The last line of the text, without strings and comments."""


def read_open_code(text: str) -> OpenCode:
    """Read a text that ends outside strings of several lines."""
    bracket_indents: list[int] = []
    first_line = ""
    line = ""
    for line in strip_literals(text).split("\n"):
        if not bracket_indents:
            first_line = line
        for character in line:
            if character in "([{":
                bracket_indents.append(_indent_of(line))
            elif character in ")]}" and bracket_indents:
                bracket_indents.pop()
    return OpenCode(bracket_indents, first_line, line)


def next_indent(before: str) -> str:
    """Return the spaces with which the line after a text begins."""
    last_line = before[before.rfind("\n") + 1 :]
    last_indent = _indent_of(last_line)
    if _ends_in_string(before):
        return " " * last_indent

    code = read_open_code(before)
    if code.bracket_indents:
        # If the user has indented a line in the bracket, the next one is below it.
        bracket_indent = code.bracket_indents[-1]
        if last_indent > bracket_indent:
            return " " * last_indent
        return " " * (bracket_indent + len(STEP))

    indent = " " * _indent_of(code.first_line)
    if code.last_line.rstrip().endswith(":"):
        return indent + STEP
    if _LEAVES_BLOCK.match(code.first_line):
        return indent[: -len(STEP)]
    return indent


def closing_indent(before: str) -> int | None:
    """Return the indentation, in columns, of a closing bracket that begins the line after a text; None
    if no bracket is open."""
    if _ends_in_string(before):
        return None
    bracket_indents = read_open_code(before).bracket_indents
    return bracket_indents[-1] if bracket_indents else None


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _ends_in_string(text: str) -> bool:
    """Return whether a text ends inside a string of several lines."""
    last_pieces = deque(_PIECE.finditer(text), maxlen=1)
    if not last_pieces or last_pieces[0].end() != len(text):
        return False
    string = last_pieces[0]["string"]
    if string is None or string[:3] not in ('"""', "'''"):
        return False
    is_closed = len(string) >= 6 and string.endswith(string[:3])
    return not is_closed


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
        lines = dedented.strip("\n").split("\n")
        code = (
            line[prompt.end() :]
            if (prompt := _PROMPT.match(line))
            else line.strip() and f"# {line}"
            for line in lines
        )
        return "\n".join(code)
    return dedented if into_empty else text


def _strip_fences(text: str) -> str:
    """Return the code of a fenced text; any other text unchanged."""
    first, *code = text.strip().split("\n")
    fence = _FENCE.fullmatch(first)
    if fence is None:
        return text
    is_closed = code and code[-1].strip() == fence[1]
    return "\n".join(code[:-1] if is_closed else code) or text


CLASSIFIED = 2_000
"""Characters of a text that is classified at each key."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*[,.;:?!…]*|\d+[,.?!%]*")

_CODE_NODES = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Attribute,
    ast.BinOp,
    ast.Call,
    ast.Compare,
    ast.Import,
    ast.ImportFrom,
    ast.Subscript,
)


def is_prose(text: str) -> bool:
    """Return whether a text is a sentence and not valid Python."""
    words = text[: CLASSIFIED + 1].split()
    if len(text) > CLASSIFIED or len(words) < 3 or parse_python(text) is not None:
        return False
    return 5 * sum(_WORD.fullmatch(word) is not None for word in words) >= 4 * len(words)


def is_code(text: str) -> bool:
    tree = parse_python(text) if len(text) <= CLASSIFIED else None
    return tree is not None and any(isinstance(node, _CODE_NODES) for node in ast.walk(tree))

"""What the user types: complete inputs, indentation, pasted Python, prose and code."""

from __future__ import annotations

import ast
import codeop
import re
import textwrap
import warnings
from collections import deque
from typing import NamedTuple

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.worker.magic.syntax import parse_python, transform

INDENT = "    "

_PARSE_FLAGS = (
    ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | codeop.PyCF_ALLOW_INCOMPLETE_INPUT  # type: ignore[attr-defined]
)
_LEAVES_BLOCK = re.compile(r"\s*(?:return|pass|break|continue|raise)\b")

_CELL_MAGIC = re.compile(r"\s*%%")
_TIME_MAGIC = re.compile(r"\s*%%time(?:it)?\b.*\n")
_LITERAL_OR_BRACKET = re.compile(
    r'(?P<string>"""(?:[^\\]|\\.)*?(?:"""|\\?\Z)|' + r"'''(?:[^\\]|\\.)*?(?:'''|\\?\Z)|"
    r'"(?:[^"\\\n]|\\.)*"?|'
    + r"'(?:[^'\\\n]|\\.)*'?)|(?P<comment>#[^\n]*)|(?P<bracket>[()\[\]{}])",
    re.DOTALL,
)
_SESSION_START = re.compile(r">>>(?: |$)|In \[\d+\]:", re.MULTILINE)
_PROMPT = re.compile(r"(?:>>>|\.\.\.)(?: |$)|(?:In \[\d+\]| +\.\.\.): ?")
_FENCE = re.compile(r"\s*+(`{3,}+|~{3,}+)[^`\n]*+")
_LEADING_TABS = re.compile(r"^[ \t]*\t", re.MULTILINE)
MAX_CLASSIFIED_CHARS = 2_000
"""A longer text is not classified, because that is done at each key."""
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


def is_complete(source: str) -> bool:
    """Return whether Enter should run a cell; invalid code is complete.

    A block or a ``%%magic`` ends with an empty line.
    """
    _, _, last_line = source.rpartition("\n")
    ends_with_blank_line = not last_line.strip()
    if _CELL_MAGIC.match(source) and not _TIME_MAGIC.match(source):
        return "\n" in source.strip() and ends_with_blank_line
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree: ast.Module = compile(
                transform(source), "<input>", "exec", _PARSE_FLAGS, dont_inherit=True
            )
    except SyntaxError as error:
        return "incomplete input" not in str(error)
    except (ValueError, RecursionError, MemoryError, SystemError):
        # A NUL; nesting too deep; another thread is parsing (3.11).
        return True
    last_statement = tree.body[-1] if tree.body else None
    is_block = hasattr(last_statement, "body") or hasattr(last_statement, "cases")
    return not is_block or ends_with_blank_line


def strip_literals(text: str) -> str:
    """Make all strings of a code empty, and remove its comments."""

    def replacement(match: re.Match[str]) -> str:
        if match["string"]:
            return '""'
        return match["bracket"] or ""

    return _LITERAL_OR_BRACKET.sub(replacement, text)


class OpenCode(NamedTuple):
    """The last statement of a text, and its open brackets."""

    bracket_indents: list[int]
    """The columns by which the line of each open bracket is indented; the innermost is last."""
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


def next_indent(text: str) -> str:
    """Return the spaces with which the line after a text begins."""
    last_line = text[text.rfind("\n") + 1 :]
    last_indent = _indent_of(last_line)
    if _ends_in_string(text):
        return " " * last_indent

    code = read_open_code(text)
    if code.bracket_indents:
        # If the user has indented a line in the bracket, the next one is below it.
        bracket_indent = code.bracket_indents[-1]
        if last_indent > bracket_indent:
            return " " * last_indent
        return " " * (bracket_indent + len(INDENT))

    indent = " " * _indent_of(code.first_line)
    if code.last_line.rstrip().endswith(":"):
        return indent + INDENT
    if _LEAVES_BLOCK.match(code.first_line):
        return indent[: -len(INDENT)]
    return indent


def closing_indent(text: str) -> int | None:
    """Return the indentation, in columns, of a closing bracket that begins the line after a text.

    None if no bracket is open.
    """
    if _ends_in_string(text):
        return None
    bracket_indents = read_open_code(text).bracket_indents
    if bracket_indents:
        return bracket_indents[-1]
    return None


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _ends_in_string(text: str) -> bool:
    """Return whether a text ends inside a string of several lines."""
    last_pieces = deque(_LITERAL_OR_BRACKET.finditer(text), maxlen=1)
    if not last_pieces or last_pieces[0].end() != len(text):
        return False
    string = last_pieces[0]["string"]
    if string is None or string[:3] not in ('"""', "'''"):
        return False
    is_closed = len(string) >= 6 and string.endswith(string[:3])
    return not is_closed


def clean(text: str) -> str:
    """Return a text without control characters, whose lines all end with a newline character."""
    return plain(text.replace("\r\n", "\n").replace("\r", "\n"))


def prepare_pasted_python(text: str, *, into_empty: bool) -> str:
    """Prepare Python copied from anywhere: indent with spaces, remove prompts and fences.

    Other text becomes comments.

    Args:
        text: What was pasted.
        into_empty: Also dedent.
    """
    text = _LEADING_TABS.sub(lambda tabs: tabs[0].expandtabs(len(INDENT)), clean(text))
    text = _strip_fences(text)
    dedented = textwrap.dedent(text)
    if _SESSION_START.match(dedented.lstrip("\n")):
        lines = dedented.strip("\n").split("\n")
        return "\n".join(_without_prompt(line) for line in lines)
    return dedented if into_empty else text


def _without_prompt(line: str) -> str:
    """Return the code of a line in a session; output becomes a comment."""
    prompt = _PROMPT.match(line)
    if prompt:
        return line[prompt.end() :]
    return f"# {line}" if line.strip() else ""


def _strip_fences(text: str) -> str:
    """Return the code of a fenced text; any other text unchanged."""
    first_line, *code_lines = text.strip().split("\n")
    fence = _FENCE.fullmatch(first_line)
    if fence is None:
        return text
    is_closed = code_lines and code_lines[-1].strip() == fence[1]
    if is_closed:
        del code_lines[-1]
    return "\n".join(code_lines) or text


def is_prose(text: str) -> bool:
    """Return whether a text is a sentence and not valid Python."""
    if len(text) > MAX_CLASSIFIED_CHARS:
        return False
    words = text.split()
    if len(words) < 3 or parse_python(text) is not None:
        return False
    # At least four of five must be words of a language, or numbers.
    language_words = sum(_WORD.fullmatch(word) is not None for word in words)
    return 5 * language_words >= 4 * len(words)


def is_code(text: str) -> bool:
    """Return whether a text is Python and not only a word, which may also be a question."""
    if len(text) > MAX_CLASSIFIED_CHARS:
        return False
    tree = parse_python(text)
    return tree is not None and any(isinstance(node, _CODE_NODES) for node in ast.walk(tree))

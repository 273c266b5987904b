"""Brings outputs of notebooks to a form that all programs share.

Programs write errors, classes, functions, patterns and pictures in different ways. Outputs are compared
in the shared form, so that only results count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mahtab_tui.export.notebook import parse_error
from mahtab_tui.export.outputs import RICH_TEXT_MIMES, OutputPart
from mahtab_tui.export.reading import UNREADABLE_OUTPUT

_SYNTAX_ERRORS = frozenset(("SyntaxError", "IndentationError", "TabError"))
_SYNTAX_ERROR_PLACE = re.compile(r" \([^()\n]{0,500}, line \d{1,9}\)$")
"""The place of a syntax error, which some programs write after the message."""

_CLASS = re.compile(r"<class '([\w.<>]{1,200})'>")
_FUNCTION = re.compile(
    r"<(?:built-in )?function ([\w.<>]{1,200})(?: at 0x[0-9a-f]{6,16}|\([^()\n]{0,500}\))?>"
)
"""A function, whose group is its name. Some programs write its address, some its parameters."""
_BUILTIN_METHOD = re.compile(
    r"<built-in method (\w{1,200}) of [\w.]{1,200} object at 0x[0-9a-f]{6,16}>"
)
"""A method of a built-in object, which some programs write as a function."""
_COMPILED_PATTERN = re.compile(
    r"""
    re\.compile\(
    (?P<raw>r?)  # some programs write a raw text
    (?P<text>b?(?:
        '(?:[^'\\\n]|\\.){0,10000}'
        | "(?:[^"\\\n]|\\.){0,10000}"
        | (?=b?['"])[^\n]{199,200}  # a long text, whose end Python leaves out
    ))
    (?P<flags>(?:,\s{1,100}re\.[A-Z|re.]{1,100})?)  # some programs write all flags
    \)
    """,
    re.VERBOSE,
)
_MAX_PATTERN_CHARS = 200
"""Python shows only this many characters of a longer pattern, as it is written in code, so that the
second quote is missing."""

_REPORTING_MAGIC = re.compile(
    r"^%%?(?:alias|env|file|hist|history|lsmagic|pip|precision|prun|set_env|who|whos|writefile)\b",
    re.MULTILINE,
)
"""A magic command that reports something in the words of the program that runs it."""
_LIST_OF_FORMATS = re.compile(
    r"^\[(?:application|audio|image|model|text|video)/[\w.+-]{1,200}(?:, [^\n]*)?\]$", re.MULTILINE
)
"""The line that stands for an output of which the file only has formats that cannot be shown."""


def first_error_line(traceback: str) -> str:
    """Return the name of the error at the end of a traceback, without its module, and the first line of
    its message."""
    error = parse_error(traceback)
    name = error.name.rpartition(".")[2]
    message = error.message
    if name in _SYNTAX_ERRORS:
        message = _SYNTAX_ERROR_PLACE.sub("", message)
    return f"{name}: {message}\n" if message else f"{name}\n"


def shared_form(text: str, mime: str) -> str:
    """Return the text of an output with only the names of classes and functions, and with patterns in
    one form.

    Args:
        text: The text.
        mime: The MIME type of the output; empty for printed text. The text of a picture is left out,
            because it only describes the picture.
    """
    if mime.startswith("image/"):
        return ""
    text = _CLASS.sub(r"\1", text)
    text = _BUILTIN_METHOD.sub(r"<function \1>", text)
    text = _COMPILED_PATTERN.sub(_shared_pattern_form, text)
    return _FUNCTION.sub(_shared_function_form, text)


def _shared_function_form(function: re.Match[str]) -> str:
    """Return a function with its name, without the class or function in which it is defined."""
    name = function[1].rpartition(".")[2]
    return f"<function {name}>"


def _shared_pattern_form(pattern: re.Match[str]) -> str:
    """Return a compiled pattern with single backslashes, and without the flag of all text patterns.

    Of a pattern that Python cuts, return only as much as is always shown.
    """
    text = pattern["text"]
    if not pattern["raw"]:
        text = text.replace("\\\\", "\\")
    escaped_length = len(text) + text.count("\\")
    first_quote = text.removeprefix("b")[0]
    is_cut = not text.endswith(first_quote)
    if is_cut or escaped_length > _MAX_PATTERN_CHARS:
        text = f"{text[: _MAX_PATTERN_CHARS // 2]}…"

    flags = set(re.findall(r"re\.([A-Z]{1,50})", pattern["flags"])) - {"UNICODE"}
    arguments = ", ".join([text, *sorted(flags)])
    return f"re.compile({arguments})"


def incomparable_reason(code: str, outputs: Sequence[OutputPart]) -> str:
    """Return why the stored outputs of a cell say nothing about its result.

    Args:
        code: The code of the cell.
        outputs: Its outputs, as the file has them.

    Returns:
        A clause; empty if the outputs can be compared.
    """
    last_line = code.rstrip().rpartition("\n")[2]
    asks_for_help = last_line.endswith("?") and "#" not in last_line
    if asks_for_help and not outputs:
        return "the file has no help"
    reporting_magic = _REPORTING_MAGIC.search(code)
    if outputs and reporting_magic:
        return f"each program has its own words for {reporting_magic[0]}"
    if any(_lacks_text(part) for part in outputs):
        return "the file has no text of what the cell displayed"
    return ""


def _lacks_text(part: OutputPart) -> bool:
    """Return whether the file has only the class or the formats of a displayed object."""
    if UNREADABLE_OUTPUT in part.text or _LIST_OF_FORMATS.search(part.text):
        return True
    return part.mime in RICH_TEXT_MIMES and part.text.startswith("<")

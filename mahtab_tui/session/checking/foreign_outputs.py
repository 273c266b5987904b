"""Outputs of notebooks in the form that all programs share: they write errors, classes, functions and
pictures in different ways."""

from __future__ import annotations

import re

from mahtab_tui.export.notebook import parse_error
from mahtab_tui.export.outputs import RICH_TEXT_MIMES, OutputPart
from mahtab_tui.export.reading import UNREADABLE_OUTPUT

_SYNTAX_ERRORS = frozenset(("SyntaxError", "IndentationError", "TabError"))
_SYNTAX_ERROR_PLACE = re.compile(r" \([^()\n]{0,500}, line \d{1,9}\)$")
"""The place of the error, which some programs write behind the message."""
_CLASS = re.compile(r"<class '([\w.<>]{1,200})'>")
_FUNCTION = re.compile(
    r"<(?:built-in )?function ([\w.<>]{1,200})(?: at 0x[0-9a-f]{6,16}|\([^()\n]{0,500}\))?>"
)
"""Its name, before the address or the parameters that some programs write."""
_BUILTIN_METHOD = re.compile(
    r"<built-in method (\w{1,200}) of [\w.]{1,200} object at 0x[0-9a-f]{6,16}>"
)
"""Some programs write a method of the library's own as a function."""
_MAX_PATTERN_CHARS = 200
"""Python shows a longer pattern up to this character, as it is in code, and without the second quote."""
_PATTERN = re.compile(
    r"re\.compile\((?P<raw>r?)(?P<text>b?"
    r"(?:'(?:[^'\\\n]|\\.){0,10000}'|\"(?:[^\"\\\n]|\\.){0,10000}\"|(?=b?['\"])[^\n]{199,200}))"
    r"(?P<flags>(?:,\s{1,100}re\.[A-Z|re.]{1,100})?)\)"
)
"""A compiled pattern, which some programs write as a raw text, with all its flags."""

_OWN_WORDS = re.compile(
    r"^%%?(?:alias|env|file|hist|history|lsmagic|pip|precision|prun|set_env|who|whos|writefile)\b",
    re.MULTILINE,
)
"""Magic commands that report something in the words of the program that runs them."""
_FORMATS = re.compile(
    r"^\[(?:application|audio|image|model|text|video)/[\w.+-]{1,200}(?:, [^\n]*)?\]$", re.MULTILINE
)
"""What stands for an output that the file has in no form that the session shows."""


def first_error_line(traceback: str) -> str:
    """Return the error of a traceback: its class without the module, and the first line of its
    message."""
    error = parse_error(traceback)
    name = error.name.rpartition(".")[2]
    message = error.message
    if name in _SYNTAX_ERRORS:
        message = _SYNTAX_ERROR_PLACE.sub("", message)
    return f"{name}: {message}\n" if message else f"{name}\n"


def shared_form(text: str, mime: str) -> str:
    """Return the text of an output, in which classes and functions stand by their names, and patterns in
    one form. That of a picture only describes it, so that it is left out. mime: of the output; empty for
    a text."""
    if mime.startswith("image/"):
        return ""
    text = _CLASS.sub(r"\1", text)
    text = _BUILTIN_METHOD.sub(r"<function \1>", text)
    text = _PATTERN.sub(_pattern_form, text)
    return _FUNCTION.sub(lambda match: f"<function {match[1].rpartition('.')[2]}>", text)


def _pattern_form(match: re.Match[str]) -> str:
    """Return a compiled pattern with single backslashes, and without the flag that each text has. Of one
    that Python cuts, return only what it shows in any case."""
    text = match["text"]
    if not match["raw"]:
        text = text.replace("\\\\", "\\")
    if len(text) + text.count("\\") > _MAX_PATTERN_CHARS or text[-1] != text.lstrip("b")[0]:
        text = f"{text[: _MAX_PATTERN_CHARS // 2]}…"
    flags = sorted(set(re.findall(r"re\.([A-Z]{1,50})", match["flags"])) - {"UNICODE"})
    return f"re.compile({text}{''.join(f', {flag}' for flag in flags)})"


def incomparable_reason(code: str, outputs: list[OutputPart]) -> str:
    """Return why the stored outputs of a cell say nothing about its result, as a clause; empty if they
    do."""
    last_line = code.rstrip().rpartition("\n")[2]
    if not outputs and last_line.endswith("?") and "#" not in last_line:
        return "the file has no help"
    if outputs and (magic := _OWN_WORDS.search(code)):
        return f"each program has its own words for {magic[0]}"
    if any(map(_lacks_text, outputs)):
        return "the file has no text of what the cell displayed"
    return ""


def _lacks_text(part: OutputPart) -> bool:
    """Return whether the file has only the class of what was displayed, or its formats."""
    has_text = UNREADABLE_OUTPUT not in part.text and not _FORMATS.search(part.text)
    return not has_text or (part.mime in RICH_TEXT_MIMES and part.text.startswith("<"))

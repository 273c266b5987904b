"""Finds the files that may contain a match with ripgrep, which reads a large tree much faster.

Python decides what matches: its regular expressions, encodings and rules of `.gitignore` differ
from ripgrep's. So ripgrep gets only a text that each match contains, and ignores nothing."""

from __future__ import annotations

import os
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mahtab_tui.system import find_program, tie_to_parent

MIN_LITERAL_CHARACTERS = 2
"""A shorter text is in nearly every file."""
_MATCH_EXIT_CODE = 0
_NO_MATCH_EXIT_CODE = 1
_ERROR_EXIT_CODE = 2
"""Some files could not be read, or the expression is not valid."""

_SAME_LETTERS = {"i": "iI\u0131\u0130", "s": "sS\u017f", "k": "kK\u212a"}
"""Letters that Python counts as the same if case is ignored."""
_IGNORE_CASE = re.compile(r"\(\?[A-Za-z]*i")
"""The flag, in the whole pattern or a part of it."""
_SPECIAL = re.compile(r"[^A-Za-z0-9_ ]")


def find_candidates(folder: Path, pattern: str, *, ignore_case: bool) -> list[str] | None:
    """Return the files that are not hidden and may contain a match, in no order.

    Args:
        folder: where to search, without following links.
        pattern: a regular expression of Python, valid.
        ignore_case: whether it ignores the case of letters.

    Returns:
        Paths relative to the folder. None if all files must be read, because ripgrep is not
        installed, has failed, or cannot search for the pattern.
    """
    # Not from a folder named relatively: that would be within the searched folder.
    program = find_program("rg")
    literal = required_literal(pattern, ignore_case=ignore_case)
    if program is None or literal is None:
        return None

    options = "--no-config --no-ignore --text --no-messages --files-with-matches --null".split()
    command = [program, *options, "--regexp", literal, "--", "."]
    process = subprocess.run(
        tie_to_parent(command),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    if not _has_all_candidates(process.returncode, process.stdout):
        return None
    paths = process.stdout.split(b"\0")
    return [os.fsdecode(path).removeprefix("./") for path in paths if path]


def _has_all_candidates(exit_code: int, output: bytes) -> bool:
    """Return whether ripgrep has listed each file that can be read and may contain a match."""
    if exit_code == _ERROR_EXIT_CODE:
        # A file that it cannot read, Python cannot read either. But if it lists no file at all, the
        # expression may be at fault.
        return bool(output)
    return exit_code in (_MATCH_EXIT_CODE, _NO_MATCH_EXIT_CODE)


def required_literal(pattern: str, *, ignore_case: bool) -> str | None:
    """Return a regular expression of ripgrep that matches the longest ASCII text contained in every
    match of a pattern; None if that text is shorter than `MIN_LITERAL_CHARACTERS`."""
    try:
        parsed = parser.parse(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError):
        return None
    # What only looks like the flag does no harm: if case is ignored, more files are candidates.
    ignores_case = ignore_case or bool(_IGNORE_CASE.search(pattern))
    literal = max(_literals(parsed), key=len)
    if len(literal) < MIN_LITERAL_CHARACTERS:
        return None
    characters = [
        _character_expression(character, ignores_case=ignores_case) for character in literal
    ]
    big_endian_characters = [
        _big_endian_expression(character, ignores_case=ignores_case) for character in literal
    ]
    # ripgrep reads UTF-16 by its byte order mark, but UTF-32 as UTF-16, with zeros between the
    # characters, or as bytes, if they are big-endian.
    forms = (
        "".join(characters),
        r"\x00".join(characters),
        r"\x00\x00".join(big_endian_characters),
    )
    return "|".join(forms)


def _literals(parsed: Sequence[Any]) -> Iterator[str]:
    """Yield texts of ASCII characters that every match contains."""
    run = ""
    for operation, argument in parsed:
        if operation is codes.LITERAL and 32 <= argument < 127:
            run += chr(argument)
            continue
        yield run
        run = ""
        if operation is codes.SUBPATTERN:
            yield from _literals(argument[-1])
        elif operation in (codes.MAX_REPEAT, codes.MIN_REPEAT) and argument[0] >= 1:
            yield from _literals(argument[2])
    yield run


def _character_expression(character: str, *, ignores_case: bool) -> str:
    """Return an expression for a character."""
    if _SPECIAL.match(character):
        return f"\\x{ord(character):02x}"
    letters = _same_letters(character, ignores_case=ignores_case)
    return letters if len(letters) == 1 else f"[{letters}]"


def _big_endian_expression(character: str, *, ignores_case: bool) -> str:
    """Return an expression for the last two bytes of a character in UTF-32, which are ASCII."""
    letters = _same_letters(character, ignores_case=ignores_case)
    letter_bytes = [letter.encode("utf-16-be") for letter in letters]
    expressions = ["".join(f"\\x{byte:02x}" for byte in two_bytes) for two_bytes in letter_bytes]
    return f"(?:{'|'.join(expressions)})"


def _same_letters(character: str, *, ignores_case: bool) -> str:
    """Return the characters that count as the same."""
    if not ignores_case or not character.isalpha():
        return character
    lower = character.lower()
    return _SAME_LETTERS.get(lower, lower + lower.upper())

"""Tries each regular expression of parts of the program on texts that take a quadratic one
minutes."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mahtab_tui

LENGTH = 25_000
"""Characters: a linear pattern takes milliseconds, a quadratic one 300,000,000 steps."""
SECONDS = 1.0
"""CPU seconds after which a pattern counts as stuck."""
METHODS = ("match", "search", "fullmatch", "sub", "findall", "finditer", "split")
PIECES = (*"a0 \n\t\"'\\<`\x1b[(\r&", " \n", "a.", "a,", "_a", "- ", "> ", "&amp;", '\\"')
FIT = "a0 .-_\"'<>=\n\t\x1b[]()/;:@$%#!?,{}|&+*~^\\`A\x00é"

NOT_HOSTILE = {
    "mahtab_tui.agent.visible_messages._ELEMENT",
    "mahtab_tui.agent.visible_messages._ATTACHMENT",
    "mahtab_tui.agent.visible_messages._ATTACHMENTS",
    "mahtab_tui.agent.message_fitting.OUTPUT",
    "mahtab_tui.agent.message_pictures._ATTACHED",
    "mahtab_tui.agent.message_pictures._DRAWN",
    "mahtab_tui.llm.demo._OUTPUT",
    "mahtab_tui.manual._COMMENT",
    "mahtab_tui.manual._PICTURE",
    "mahtab_tui.manual._PAGE_LINK",
    "mahtab_tui.manual._TABLE_RULE",
}
"""They read pages of the manual, or elements that the program itself writes, whose text is escaped,
so that each beginning has its end."""
SHORT = {
    "mahtab_tui.bus.fences._OPENING_FENCE",
    "mahtab_tui.bus.fences._PARTIAL_OPENING",
    "mahtab_tui.bus.fences._CLOSING_FENCE",
    "mahtab_tui.bus.fences._PARTIAL_CLOSING",
    "mahtab_tui.bus.html_table._NUMBER",
}
"""They get only short lines and cells (`MAX_FENCE_CHARS`, `MAX_NUMBER_CHARS`)."""
SHORT_LENGTH = 300


class Found(NamedTuple):
    """A pattern and its uses."""

    name: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]
    length: int


class Stuck(Exception):
    """A pattern takes too long."""


def patterns(part: str) -> Iterator[Found]:
    """All patterns in the modules of a package ("bus"), or in those outside the packages ("")."""
    for info in pkgutil.walk_packages(mahtab_tui.__path__, "mahtab_tui."):
        names = info.name.split(".")
        if (names[1] if len(names) > 2 else "") != part or {"__main__", "plugin"} & {*names}:
            continue
        module = importlib.import_module(info.name)
        source = Path(str(module.__file__)).read_text()
        for name, value in vars(module).items():
            full_name = f"{info.name}.{name}"
            if (
                isinstance(value, re.Pattern)
                and f"{name} = re.compile(" in source
                and full_name not in NOT_HOSTILE
            ):
                used_methods = [
                    method_name
                    for method_name in METHODS
                    if re.search(rf"\b{name}\.{method_name}\(", source)
                ]
                length = SHORT_LENGTH if full_name in SHORT else LENGTH
                yield Found(full_name, value, tuple(used_methods or ["match"]), length)
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                    args=[ast.Constant(value=str(text)), *_],
                ) if method in METHODS:
                    name = f"{info.name}, line {node.lineno}"
                    yield Found(name, re.compile(text), (method,), LENGTH)


def sample(tree: Any, variant: int) -> str:
    """A text that a parsed pattern matches, or nearly."""
    sampled = ""
    for code, value in tree:
        if code is codes.LITERAL:
            sampled += chr(value)
        elif code in (codes.NOT_LITERAL, codes.ANY):
            sampled += "b" if value == ord("a") else "a"
        elif code is codes.IN:
            sampled += next((sign for sign in FIT if fits(sign, value)), "a")
        elif code is codes.BRANCH:
            sampled += sample(value[1][variant % len(value[1])], variant)
        elif code is codes.SUBPATTERN:
            sampled += sample(value[3], variant)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            min_count, max_count, inner = value
            sampled += sample(inner, variant) * max(min_count, min(max_count, 1 + variant % 2))
        elif code is codes.ATOMIC_GROUP:
            sampled += sample(value, variant)
        elif code is codes.ASSERT and value[0] > 0:
            sampled += sample(value[1], variant)
    return sampled


def fits(sign: str, members: Any) -> bool:
    """Whether a character is in a set, as it was parsed."""
    inside = False
    for code, value in members:
        if code is codes.LITERAL:
            inside |= chr(value) == sign
        elif code is codes.RANGE:
            inside |= value[0] <= ord(sign) <= value[1]
        elif code is codes.CATEGORY:
            name = str(value)
            kind = sign.isalnum() or sign == "_"
            if "DIGIT" in name or "SPACE" in name:
                kind = sign.isdigit() if "DIGIT" in name else sign.isspace()
            inside |= kind != ("NOT" in name)
    return inside != (bool(members) and members[0][0] is codes.NEGATE)


def texts(pattern_use: Found) -> Iterator[str]:
    """Texts that the pattern is tried on."""
    source = pattern_use.pattern.pattern
    flags = pattern_use.pattern.flags
    if isinstance(source, bytes):
        source = source.decode("latin-1")
        flags = flags & ~re.UNICODE
    tree = parser.parse(source, flags)
    samples = [sample(tree, variant)[:40] for variant in range(4)]
    pieces = dict.fromkeys(PIECES)
    for sample_text in samples:
        pieces |= dict.fromkeys(
            [sample_text[:size] for size in range(1, len(sample_text) + 1)] + list(sample_text[:12])
        )
    for piece in pieces:
        for beginning in dict.fromkeys(("", samples[0][:1], samples[1], samples[1][:-1])):
            yield beginning + piece * (pattern_use.length // len(piece)) + "\0!"


def stuck(pattern_use: Found) -> str:
    """The beginning of a text that takes the pattern too long; empty where there is none."""
    for text in texts(pattern_use):
        is_bytes = isinstance(pattern_use.pattern.pattern, bytes)
        subject: Any = text.encode("latin-1", "replace") if is_bytes else text
        for method in pattern_use.methods:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            try:
                arguments = (subject[:0], subject) if method == "sub" else (subject,)
                result = getattr(pattern_use.pattern, method)(*arguments)
                for _ in result if method == "finditer" else ():
                    pass
            except Stuck:
                return f"{pattern_use.name}.{method}({text[:60]!r}…)"
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def give_up(number: int, frame: object) -> None:
    raise Stuck


if __name__ == "__main__":
    signal.signal(signal.SIGVTALRM, give_up)
    tried = [pattern for part in sys.argv[1:] for pattern in patterns(part)]
    print("\n".join(filter(None, map(stuck, tried))) or f"{len(tried)} patterns, none is stuck")

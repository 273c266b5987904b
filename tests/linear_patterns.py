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

LENGTH = 50_000
"""Characters: a linear pattern takes milliseconds, a quadratic one 1,000,000,000 steps."""
SECONDS = 1.0
"""CPU seconds after which a pattern counts as stuck."""
METHODS = ("match", "search", "fullmatch", "sub", "findall", "finditer", "split")
PIECES = (*"a0 \n\t\"'\\<`\x1b[(\r&", " \n", "a.", "a,", "_a", "- ", "> ", "&amp;", '\\"')
FIT = "a0 .-_\"'<>=\n\t\x1b[]()/;:@$%#!?,{}|&+*~^\\`A\x00é"

NOT_HOSTILE = {
    "mahtab_tui.agent.conversation._ELEMENT",
    "mahtab_tui.agent.conversation._ATTACHMENT",
    "mahtab_tui.agent.conversation._ATTACHMENTS",
    "mahtab_tui.agent.conversation.OUTPUT",
    "mahtab_tui.agent.model_calls._ATTACHED",
    "mahtab_tui.agent.model_calls._DRAWN",
    "mahtab_tui.llm.scripted._OUTPUT",
    "mahtab_tui.manual._COMMENT",
    "mahtab_tui.manual._PICTURE",
    "mahtab_tui.manual._PAGE_LINK",
    "mahtab_tui.manual._RULE",
}
"""They read pages of the manual, or elements that the program itself writes, whose text is escaped,
so that each beginning has its end."""
SHORT = {
    "mahtab_tui.bus.answers._OPENING",
    "mahtab_tui.bus.answers._PARTIAL_OPENING",
    "mahtab_tui.bus.answers._CLOSING",
    "mahtab_tui.bus.answers._PARTIAL_CLOSING",
    "mahtab_tui.bus.output._NUMERIC",
}
"""They get only short lines and cells (`LONGEST`, `LONGEST_NUMBER`)."""
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
                used = [each for each in METHODS if re.search(rf"\b{name}\.{each}\(", source)]
                length = SHORT_LENGTH if full_name in SHORT else LENGTH
                yield Found(full_name, value, tuple(used or ["match"]), length)
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
    made = ""
    for code, value in tree:
        if code is codes.LITERAL:
            made += chr(value)
        elif code in (codes.NOT_LITERAL, codes.ANY):
            made += "b" if value == ord("a") else "a"
        elif code is codes.IN:
            made += next((sign for sign in FIT if fits(sign, value)), "a")
        elif code is codes.BRANCH:
            made += sample(value[1][variant % len(value[1])], variant)
        elif code is codes.SUBPATTERN:
            made += sample(value[3], variant)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, inner = value
            made += sample(inner, variant) * max(least, min(most, 1 + variant % 2))
        elif code is codes.ATOMIC_GROUP:
            made += sample(value, variant)
        elif code is codes.ASSERT and value[0] > 0:
            made += sample(value[1], variant)
    return made


def fits(sign: str, members: Any) -> bool:
    """Whether a character is in a set, as it was parsed."""
    inside = False
    for code, value in members:
        if code is codes.LITERAL:
            inside |= chr(value) == sign
        elif code is codes.RANGE:
            inside |= value[0] <= ord(sign) <= value[1]
        elif code is codes.CATEGORY:
            name, kind = str(value), sign.isalnum() or sign == "_"
            if "DIGIT" in name or "SPACE" in name:
                kind = sign.isdigit() if "DIGIT" in name else sign.isspace()
            inside |= kind != ("NOT" in name)
    return inside != (bool(members) and members[0][0] is codes.NEGATE)


def texts(found: Found) -> Iterator[str]:
    """Texts that the pattern is tried on."""
    source, flags = found.pattern.pattern, found.pattern.flags
    if isinstance(source, bytes):
        source, flags = source.decode("latin-1"), flags & ~re.UNICODE
    tree = parser.parse(source, flags)
    samples = [sample(tree, variant)[:40] for variant in range(4)]
    pieces = dict.fromkeys(PIECES)
    for one in samples:
        pieces |= dict.fromkeys([one[:size] for size in range(1, len(one) + 1)] + list(one[:12]))
    for piece in pieces:
        for beginning in dict.fromkeys(("", samples[0][:1], samples[1])):
            yield beginning + piece * (found.length // len(piece)) + "\0!"


def stuck(found: Found) -> str:
    """The beginning of a text that takes the pattern too long; empty where there is none."""
    for text in texts(found):
        is_bytes = isinstance(found.pattern.pattern, bytes)
        given: Any = text.encode("latin-1", "replace") if is_bytes else text
        for method in found.methods:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            try:
                arguments = (given[:0], given) if method == "sub" else (given,)
                result = getattr(found.pattern, method)(*arguments)
                for _ in result if method == "finditer" else ():
                    pass
            except Stuck:
                return f"{found.name}.{method}({text[:60]!r}…)"
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def give_up(number: int, frame: object) -> None:
    raise Stuck


if __name__ == "__main__":
    signal.signal(signal.SIGVTALRM, give_up)
    tried = [found for part in sys.argv[1:] for found in patterns(part)]
    print("\n".join(filter(None, map(stuck, tried))) or f"{len(tried)} patterns, none is stuck")

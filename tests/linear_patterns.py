"""Tries each regular expression of parts of the program on texts that would keep a quadratic one
busy for minutes."""

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

LENGTH = 80_000
"""Characters: a linear pattern takes milliseconds for them, a quadratic one 3,000,000,000 steps."""
SECONDS = 5.0
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
    "mahtab_tui.llm.scripted._OUTPUT",
    "mahtab_tui.manual._COMMENT",
    "mahtab_tui.manual._PICTURE",
    "mahtab_tui.manual._PAGE_LINK",
    "mahtab_tui.manual._RULE",
}
"""They read pages of the manual, or elements that the program itself writes: the text within is
defused, so none is begun that is not ended."""
SHORT = {
    "mahtab_tui.bus.answers._OPENING",
    "mahtab_tui.bus.answers._PARTIAL_OPENING",
    "mahtab_tui.bus.answers._CLOSING",
    "mahtab_tui.bus.answers._PARTIAL_CLOSING",
    "mahtab_tui.bus.output._NUMERIC",
}
"""They are given lines and cells of at most so many characters (`LONGEST`, `LONGEST_NUMBER`)."""
SHORT_LENGTH = 300


class Found(NamedTuple):
    """A pattern and how it is used."""

    name: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]
    length: int


class Stuck(Exception):
    """It takes too long."""


def patterns(part: str) -> Iterator[Found]:
    """All patterns of the modules of a part ("bus"), or of those beside the parts ("")."""
    for info in pkgutil.walk_packages(mahtab_tui.__path__, "mahtab_tui."):
        names = info.name.split(".")
        if (
            (names[1] if len(names) > 2 else "") != part
            or names[-1] == "__main__"
            or "plugin" in names
        ):
            continue
        module = importlib.import_module(info.name)
        source = Path(str(module.__file__)).read_text()
        for name, value in vars(module).items():
            if (
                isinstance(value, re.Pattern)
                and f"{name} = re.compile(" in source
                and f"{info.name}.{name}" not in NOT_HOSTILE
            ):
                used = [
                    method for method in METHODS if re.search(rf"\b{name}\.{method}\(", source)
                ] or ["match"]
                length = SHORT_LENGTH if f"{info.name}.{name}" in SHORT else LENGTH
                yield Found(f"{info.name}.{name}", value, tuple(used), length)
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                method, text = node.func.attr, node.args[0].value
                if (
                    isinstance(node.func.value, ast.Name)
                    and node.func.value.id == "re"
                    and method in METHODS
                    and isinstance(text, str)
                ):
                    yield Found(
                        f"{info.name}, line {node.lineno}", re.compile(text), (method,), LENGTH
                    )


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
            name = str(value)
            kind = (
                sign.isdigit()
                if "DIGIT" in name
                else sign.isspace()
                if "SPACE" in name
                else sign.isalnum() or sign == "_"
            )
            inside |= kind != ("NOT" in name)
    return inside != (bool(members) and members[0][0] is codes.NEGATE)


def texts(found: Found) -> Iterator[str]:
    """Texts that the pattern is tried on."""
    source = (
        found.pattern.pattern
        if isinstance(found.pattern.pattern, str)
        else found.pattern.pattern.decode("latin-1")
    )
    tree = parser.parse(
        source,
        found.pattern.flags & ~re.UNICODE
        if isinstance(found.pattern.pattern, bytes)
        else found.pattern.flags,
    )
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
        given: Any = (
            text.encode("latin-1", "replace") if isinstance(found.pattern.pattern, bytes) else text
        )
        for method in found.methods:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            try:
                result = getattr(found.pattern, method)(
                    *((given[:0], given) if method == "sub" else (given,))
                )
                for _ in result if method == "finditer" else ():
                    pass
            except Stuck:
                return f"{found.name}.{method}({text[:60]!r}…)"
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def give_up(number: int, frame: object) -> None:
    """The time of a pattern is over."""
    raise Stuck


if __name__ == "__main__":
    signal.signal(signal.SIGVTALRM, give_up)
    tried = [found for part in sys.argv[1:] for found in patterns(part)]
    print("\n".join(filter(None, map(stuck, tried))) or f"{len(tried)} patterns, none is stuck")

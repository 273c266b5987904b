"""Rules about code that runs without asking, asks, or never runs: ``allow: read_only``, ``ask:
open(*, "w")``, ``deny: os.system(*)``."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

RuleAction = Literal["deny", "ask", "allow"]
READ_ONLY = "read_only"
"""Stands for all calls that change nothing outside the namespace."""

_RULE = re.compile(
    r"\s*(?P<action>\w+)\s*:\s*(?P<name>[\w*.]+)\s*(?:\((?P<arguments>.*)\))?\s*", re.DOTALL
)
_ARGUMENT = re.compile(
    r"""\s*(?:(?P<keyword>[^\W\d]\w*)\s*=\s*)?(?P<value>\*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|-?\d+(?:\.\d+)?|True|False|None)\s*(?:,|$)""",
    re.DOTALL,
)
_ONE = re.compile(r"""(?:"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|[^;\n"'])++""")
_LONGEST = 500
_ANY = "*"


Pattern = object
"""`_ANY_VALUE`, a glob as a str, or a literal."""
_ANY_VALUE = object()
UNKNOWN = object()
"""Stands for an argument whose value is not known from the code."""


class Call(NamedTuple):
    """A call, in code or when it happens."""

    name: str
    """Dotted, without aliases; ``?.to_csv`` for a method of something without a name."""
    arguments: tuple[object, ...] = ()
    """Texts, numbers, lists of such, None, or `UNKNOWN`."""
    keywords: Mapping[str, object] = MappingProxyType({})
    starred: bool = False
    """Whether there are arguments that cannot be counted."""


def open_call(
    path: object, mode: object = "r", keywords: Mapping[str, object] = MappingProxyType({})
) -> Call:
    """Return a call of `open`, whose mode becomes one letter: r, w, a, x, or r+ for changing."""
    return Call("open", (path, _mode(mode) if isinstance(mode, str) else mode), keywords)


def _mode(mode: str) -> str:
    return next((letter for letter in "wax" if letter in mode), "r+" if "+" in mode else "r")


class Rule(NamedTuple):
    action: RuleAction
    name: str
    """A glob for the dotted name of what is called, or `READ_ONLY`."""
    arguments: tuple[Pattern, ...]
    keywords: tuple[tuple[str, Pattern], ...]
    more: bool
    text: str

    def matches(self, call: Call) -> bool:
        """An unknown argument matches in `deny` and `ask`, but not in `allow`."""
        strict = self.action == "allow"
        if not fnmatchcase(call.name, self.name):
            return False
        if call.starred:
            return not strict or (self.more and not self.arguments and not self.keywords)
        named = {keyword for keyword, _ in self.keywords}
        if len(call.arguments) < len(self.arguments) or not named.issubset(call.keywords):
            return False
        is_longer = len(call.arguments) > len(self.arguments) or not named.issuperset(call.keywords)
        if strict and not self.more and is_longer:
            return False
        pairs = [
            *zip(self.arguments, call.arguments, strict=False),
            *((pattern, call.keywords[name]) for name, pattern in self.keywords),
        ]
        return all(_matches(pattern, value, not strict) for pattern, value in pairs)


def split_rules(text: str) -> list[str]:
    """Split at semicolons that are not within quotes."""
    return [rule.strip() for rule in _ONE.findall(text) if rule.strip()]


@functools.lru_cache(8)
def parse_rules(texts: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(map(parse_rule, texts))


def parse_rule(text: str) -> Rule:
    """Read a rule. Raises `ValueError` with a clause that names the problem."""
    rule = f"the rule {text[:80]!r}"
    if len(text) > _LONGEST:
        raise ValueError(f"{rule}… is longer than {_LONGEST} characters")
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f'{rule} is not like "allow: read_only" or "deny: os.system(*)"')
    action, name, inside = found["action"], found["name"], found["arguments"]
    if action not in get_args(RuleAction):
        raise ValueError(f"{rule} begins with {action!r}; a rule begins with allow, ask or deny")
    if name == READ_ONLY:
        if action != "allow" or inside is not None:
            raise ValueError(f"{rule} cannot be used: read_only works only as allow: read_only")
        return Rule("allow", READ_ONLY, (), (), False, text.strip())
    if inside is None:
        raise ValueError(f"{rule} names no call: write {name}(*)")
    positional, keywords = _parse_patterns(inside, rule)
    if name == "open" and len(positional) > 1 and isinstance(positional[1], str):
        positional[1] = _mode(positional[1])
    more = bool(positional) and positional[-1] is _ANY_VALUE
    return Rule(
        action,  # type: ignore[arg-type]
        name,
        tuple(positional[:-1] if more else positional),
        tuple(keywords),
        more,
        text.strip(),
    )


def _parse_patterns(inside: str, rule: str) -> tuple[list[Pattern], list[tuple[str, Pattern]]]:
    positional: list[Pattern] = []
    keywords: list[tuple[str, Pattern]] = []
    at = 0
    while at < len(inside.rstrip()):
        found = _ARGUMENT.match(inside, at)
        if found is None or (keywords and not found["keyword"] and found["value"] != _ANY):
            wrong = inside[at : at + 40].strip()
            raise ValueError(
                f"{rule} has the argument {wrong!r}, which is not *, a text in quotes, a number, True, False or None"
            )
        value: Pattern = _ANY_VALUE if found["value"] == _ANY else ast.literal_eval(found["value"])
        if found["keyword"]:
            keywords.append((found["keyword"], value))
        else:
            positional.append(value)
        at = found.end()
    return positional, keywords


def _matches(pattern: Pattern, value: object, unknown_fits: bool) -> bool:
    if pattern is _ANY_VALUE:
        return True
    if value is UNKNOWN:
        return unknown_fits
    if isinstance(pattern, str):
        return isinstance(value, str) and fnmatchcase(value, pattern)
    return type(pattern) is type(value) and pattern == value

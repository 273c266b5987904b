"""Rules about code that runs without asking, asks, or never runs: ``allow: read_only``, ``ask:
open``, ``deny: os.system``."""

from __future__ import annotations

import functools
import re
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, cast, get_args

RuleAction = Literal["deny", "ask", "allow"]
READ_ONLY = "read_only"
"""Stands for all calls that change nothing outside the namespace."""

_RULE = re.compile(
    r"\s*(?P<action>\w+)\s*:\s*(?P<name>[\w*.]+)\s*(?:\((?P<arguments>.*)\))?\s*", re.DOTALL
)
_LONGEST = 500


class Rule(NamedTuple):
    action: RuleAction
    name: str
    """A glob for the dotted name of what is called, or `READ_ONLY`."""
    text: str

    def matches(self, name: str) -> bool:
        return fnmatchcase(name, self.name)


def split_rules(text: str) -> list[str]:
    return [rule.strip() for rule in text.split(";") if rule.strip()]


@functools.lru_cache(8)
def parse_rules(texts: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(map(parse_rule, texts))


def parse_rule(text: str) -> Rule:
    """Read a rule. Raises `ValueError` with a clause that says what is wrong. Arguments, which rules
    had once, make `allow` match nothing, and are ignored by `ask` and `deny`."""
    quoted = repr(text[:80])
    found = _RULE.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or found["action"] not in get_args(RuleAction):
        raise ValueError(f'the rule {quoted} is not like "allow: read_only" or "deny: os.system"')
    action, name = cast("RuleAction", found["action"]), found["name"]
    arguments = (found["arguments"] or "").strip()
    if name == READ_ONLY and (action != "allow" or arguments):
        raise ValueError(
            f"the rule {quoted} cannot be used: read_only works only as allow: read_only"
        )
    return Rule(
        action, "" if action == "allow" and arguments not in ("", "*") else name, text.strip()
    )

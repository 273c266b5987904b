"""Rules about code that runs without asking, asks, or never runs: ``allow: read_only``, ``ask:
open(*, "w")``, ``deny: os.system(*)``."""

from __future__ import annotations

import ast
import functools
import glob
import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from mahtab_tui.worker.guard.protected_places import MAX_PATH_CHARS, ResolvedPath

RuleAction = Literal["deny", "ask", "allow"]
READ_ONLY = "read_only"
"""Stands for all code that changes nothing outside the namespace."""

_RULE = re.compile(
    r"\s*(?P<action>\w+)\s*:\s*(?P<name>[\w*.]+)\s*(?:\((?P<arguments>.*)\))?\s*", re.DOTALL
)
_ARGUMENT = re.compile(
    r"""\s*(?:(?P<keyword>[^\W\d]\w*)\s*=\s*)?(?P<value>\*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|-?\d+(?:\.\d+)?|True|False|None)\s*(?:,|$)""",
    re.DOTALL,
)
"""One argument of a rule, with the comma after it."""
_RULE_IN_LIST = re.compile(r"""(?:"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|[^;\n"'])++""")
"""One of several rules, which semicolons or line breaks separate."""
MAX_RULE_CHARS = 500
_ANY_MARK = "*"
"""How a rule writes `_ANY_VALUE`."""
_WILDCARD = re.compile(r"[*?\[]")
_GLOB_TOKEN = re.compile(r"\*\*+|\*|\?|\[!?\]?[^\]]{0,100}+\]|.", re.DOTALL)
"""A part of a glob that stands for one character, or a star. The length of a set of characters is
limited, so that brackets without an end are read in linear time."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
"""The beginning of an address, such as ``file:``."""

Pattern = object
"""`_ANY_VALUE`, a glob as a str, or a literal."""
_ANY_VALUE = object()
"""The pattern that every value matches."""
UNKNOWN = object()
"""Stands for an argument whose value is not known from the code."""

Paths = Mapping[str, ResolvedPath | None]
"""Where texts lead that are used as paths; None for those that cannot be paths. A text that is
missing here could not be resolved."""


class Call(NamedTuple):
    """A call, in code or when it happens."""

    name: str
    """Dotted, without aliases; ``?.to_csv`` for a method of something without a name."""
    arguments: tuple[object, ...] = ()
    """Strings, numbers, lists of these, None, or `UNKNOWN`."""
    keywords: Mapping[str, object] = MappingProxyType({})
    starred: bool = False
    """Whether it has arguments whose number is unknown, such as ``*args``."""


def open_call(
    path: object, mode: object = "r", keywords: Mapping[str, object] = MappingProxyType({})
) -> Call:
    """Return a call of `open`, with the mode as `mode_letter` simplifies it."""
    if isinstance(mode, str):
        mode = mode_letter(mode)
    return Call("open", (path, mode), keywords)


def mode_letter(mode: str) -> str:
    """Simplify the mode of an open file to r, w, a, x, or r+ for reading and writing."""
    for letter in "wax":
        if letter in mode:
            return letter
    return "r+" if "+" in mode else "r"


class Rule(NamedTuple):
    """A rule of the user's about calls."""

    action: RuleAction
    name: str
    """A glob for the dotted name of what is called, or `READ_ONLY`."""
    arguments: tuple[Pattern, ...]
    """Patterns for the first positional arguments."""
    keywords: tuple[tuple[str, Pattern], ...]
    """Names of keyword arguments, and their patterns."""
    allows_more: bool
    """Whether a call may have further arguments: the last positional pattern was ``*``."""
    text: str
    """The rule as the user wrote it."""

    def matches(self, call: Call, paths: Paths) -> bool:
        """Return whether the rule is about a call.

        `allow` is strict: it must surely match. `deny` and `ask` match if they perhaps do, so an
        unknown argument, or one that the rule does not mention, is no obstacle.

        Args:
            call: The call.
            paths: Where the texts of `texts_to_resolve` lead.
        """
        if not fnmatchcase(call.name, self.name):
            return False
        is_strict = self.action == "allow"
        if call.starred:
            return not is_strict or self._allows_any_arguments
        if not self._has_all_arguments(call):
            return False
        if is_strict and not self.allows_more and self._has_more_arguments(call):
            return False

        pairs = [
            *zip(self.arguments, call.arguments, strict=False),
            *((pattern, call.keywords[name]) for name, pattern in self.keywords),
        ]
        return all(_matches(pattern, value, paths, strict=is_strict) for pattern, value in pairs)

    @property
    def _allows_any_arguments(self) -> bool:
        """Whether the rule's only pattern is ``*``."""
        return self.allows_more and not self.arguments and not self.keywords

    def _has_all_arguments(self, call: Call) -> bool:
        """Return whether a call has every argument for which the rule has a pattern."""
        if len(call.arguments) < len(self.arguments):
            return False
        return all(name in call.keywords for name, _ in self.keywords)

    def _has_more_arguments(self, call: Call) -> bool:
        """Return whether a call has an argument for which the rule has no pattern."""
        if len(call.arguments) > len(self.arguments):
            return True
        names = {name for name, _ in self.keywords}
        return any(name not in names for name in call.keywords)

    @property
    def text_patterns(self) -> list[str]:
        """The globs for strings, which may be paths."""
        patterns = [*self.arguments, *(pattern for _, pattern in self.keywords)]
        return [pattern for pattern in patterns if isinstance(pattern, str)]


def texts_to_resolve(rules: Iterable[Rule], calls: Iterable[Call]) -> set[str]:
    """Return the texts that must be resolved as paths before these rules can be compared with these
    calls; empty if no rule has a pattern for a string."""
    folders = {_folder(pattern) for rule in rules for pattern in rule.text_patterns}
    if not folders:
        return set()
    values = [value for call in calls for value in (*call.arguments, *call.keywords.values())]
    texts = {_to_text(value) for value in values if isinstance(value, str | bytes)}
    return folders | {text for text in texts if len(text) <= MAX_PATH_CHARS}


def split_rules(text: str) -> list[str]:
    """Split a list of rules at semicolons and line breaks that are not within quotes."""
    return [rule.strip() for rule in _RULE_IN_LIST.findall(text) if rule.strip()]


@functools.lru_cache(8)
def parse_rules(texts: tuple[str, ...]) -> tuple[Rule, ...]:
    """Parse rules. Raises `ValueError`, as `parse_rule` does."""
    return tuple(map(parse_rule, texts))


def parse_rule(text: str) -> Rule:
    """Parse a rule. Raises `ValueError` with a clause that names the problem."""
    rule_label = f"the rule {text[:80]!r}"
    if len(text) > MAX_RULE_CHARS:
        raise ValueError(f"{rule_label}… is longer than {MAX_RULE_CHARS} characters")
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f'{rule_label} is not like "allow: read_only" or "deny: os.system(*)"')
    action = match["action"]
    name = match["name"]
    arguments = match["arguments"]
    if action not in get_args(RuleAction):
        raise ValueError(
            f"{rule_label} begins with {action!r}; a rule begins with allow, ask or deny"
        )
    if name == READ_ONLY:
        if action != "allow" or arguments is not None:
            raise ValueError(
                f"{rule_label} cannot be used: read_only works only as allow: read_only"
            )
        return Rule("allow", READ_ONLY, (), (), False, text.strip())
    if arguments is None:
        raise ValueError(f"{rule_label} names no call: write {name}(*)")

    patterns = _parse_patterns(arguments, rule_label)
    positional = patterns.positional
    # Calls of `open` have simplified modes, too: see `open_call`.
    if name == "open" and len(positional) > 1 and isinstance(positional[1], str):
        positional[1] = mode_letter(positional[1])
    # A ``*`` at the end stands for any number of arguments.
    allows_more = bool(positional) and positional[-1] is _ANY_VALUE
    if allows_more:
        positional.pop()
    return Rule(
        action,  # type: ignore[arg-type]
        name,
        tuple(positional),
        tuple(patterns.keywords),
        allows_more,
        text.strip(),
    )


class _Patterns(NamedTuple):
    """The patterns of a rule, as they are read."""

    positional: list[Pattern]
    keywords: list[tuple[str, Pattern]]
    """The names of arguments, each with the pattern of its value."""


def _parse_patterns(arguments: str, rule_label: str) -> _Patterns:
    """Parse what stands within the parentheses of a rule.

    Args:
        arguments: The text within the parentheses.
        rule_label: The beginning of an error's clause.

    Raises:
        ValueError: They cannot be read.
    """
    positional: list[Pattern] = []
    keywords: list[tuple[str, Pattern]] = []
    offset = 0
    while offset < len(arguments.rstrip()):
        match = _ARGUMENT.match(arguments, offset)
        # As in Python, positional arguments come first; but a ``*`` may stand at the end.
        if match is None or (keywords and not match["keyword"] and match["value"] != _ANY_MARK):
            wrong_text = arguments[offset : offset + 40].strip()
            raise ValueError(
                f"{rule_label} has the argument {wrong_text!r}, which is not *, a text in quotes, a number,"
                " True, False or None"
            )
        value = _parse_pattern(match["value"], rule_label)
        if match["keyword"]:
            keywords.append((match["keyword"], value))
        else:
            positional.append(value)
        offset = match.end()
    return _Patterns(positional, keywords)


def _parse_pattern(text: str, rule_label: str) -> Pattern:
    """Parse the pattern of one argument. Raises `ValueError`."""
    if text == _ANY_MARK:
        return _ANY_VALUE
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):  # a wrong escape, or a line break within quotes
        raise ValueError(
            f"{rule_label} has the argument {text[:40]!r}, which Python cannot read"
        ) from None


def _matches(pattern: Pattern, value: object, paths: Paths, *, strict: bool) -> bool:
    """Return whether a value matches a pattern.

    Args:
        pattern: The pattern.
        value: The value; `UNKNOWN` if the code does not show it.
        paths: How paths are written.
        strict: Whether it must surely match, and not only perhaps.
    """
    if pattern is _ANY_VALUE:
        return True
    if value is UNKNOWN:
        return not strict
    if not isinstance(pattern, str):
        return type(pattern) is type(value) and pattern == value
    if strict:
        return isinstance(value, str) and _allows_text(pattern, value, paths)
    return isinstance(value, str | bytes) and _may_mean(pattern, _to_text(value), paths)


def _allows_text(pattern: str, value: str, paths: Paths) -> bool:
    """Return whether a text surely matches a pattern, both as it is and as a path: links, ``..``
    and ``~`` must not lead anywhere that the pattern does not name."""
    has_wildcard = _WILDCARD.search(pattern) is not None
    if not has_wildcard and value != pattern:
        return False
    if has_wildcard and ".." in value.split("/"):
        return False
    scheme = _SCHEME.match(value)
    if scheme is not None and not pattern.startswith(scheme[0]):
        return False
    if len(value) > MAX_PATH_CHARS:  # too long for a path
        return matches_glob(pattern, value)

    # Compare the paths to which the pattern's folders and the text lead.
    folder_text = _folder(pattern)
    name_pattern = pattern[len(folder_text) :]
    folder = paths.get(folder_text)
    if value not in paths or folder is None:
        return False
    target = paths[value]
    if target is None:  # cannot be a path
        return matches_glob(pattern, value)
    # The text is the pattern itself and names a folder, which the comparison below would miss.
    if value == pattern and name_pattern in ("", ".", "..", "~"):
        return True
    if not value.startswith("~"):
        return matches_glob(_join(folder.expanded, name_pattern), target.as_written)
    # Some functions insert the user's folder for ``~``, and some do not: both paths must match.
    if not matches_glob(_join(folder.as_written, name_pattern), target.as_written):
        return False
    return matches_glob(_join(folder.expanded, name_pattern), target.expanded)


def _may_mean(pattern: str, value: str, paths: Paths) -> bool:
    """Return whether a text may match a pattern, as it is or as a path.

    Here ``*`` crosses slashes, so that no path escapes the rule.
    """
    if fnmatchcase(value, pattern):
        return True
    folder_text = _folder(pattern)
    folder = paths.get(folder_text)
    target = paths.get(value)
    if folder is None or target is None:
        return False
    name_pattern = pattern[len(folder_text) :]
    return any(fnmatchcase(path, _join(start, name_pattern)) for start in folder for path in target)


def _to_text(value: str | bytes) -> str:
    """Return a value that may be a path as text."""
    return os.fsdecode(value)


def _folder(pattern: str) -> str:
    """Return the folders of a pattern before its first wildcard, with a slash at the end; empty if
    there are none."""
    fixed = _WILDCARD.split(pattern, maxsplit=1)[0]
    return fixed[: fixed.rfind("/") + 1]


def _join(folder: str, name_pattern: str) -> str:
    """Return a glob for names in a folder. In the folder's own name, nothing is a wildcard."""
    return f"{glob.escape(folder.rstrip('/'))}/{name_pattern}"


def matches_glob(pattern: str, text: str) -> bool:
    """Compare like `fnmatchcase`, but only ``**`` crosses slashes.

    Takes linear time: it simulates a nondeterministic automaton, whose states are the positions in
    the pattern, as bits.
    """
    tokens = _GLOB_TOKEN.findall(pattern)
    # Bit n of `positions` says whether the tokens before token n match the text so far. The tokens
    # whose bits are set in `stars` are stars.
    stars = 0
    for position, token in enumerate(tokens):
        if token[0] == "*":
            stars |= 1 << position

    masks_by_character: dict[str, _StepMasks] = {}
    positions = _skip_stars(1, stars)
    for character in text:
        if character not in masks_by_character:
            masks_by_character[character] = _step_masks(tokens, character)
        masks = masks_by_character[character]
        positions = (positions & masks.advancing) << 1 | positions & masks.staying
        positions = _skip_stars(positions, stars)
        if not positions:
            return False
    # The bit after the last token: all of them match all of the text.
    return bool(positions >> len(tokens) & 1)


def _skip_stars(positions: int, stars: int) -> int:
    """Add the positions after stars, since a star may stand for no character.

    Two stars never stand side by side, so one step is enough.
    """
    return positions | (positions & stars) << 1


class _StepMasks(NamedTuple):
    """What a character does at each position in a pattern, as bits."""

    advancing: int
    """The positions that lead to the next one."""
    staying: int
    """Positions at which it stays."""


def _step_masks(tokens: Iterable[str], character: str) -> _StepMasks:
    """Return what a character does.

    Args:
        tokens: The tokens of the pattern.
        character: The character.
    """
    advancing = 0
    staying = 0
    for position, token in enumerate(tokens):
        if token[0] == "*":
            staying |= (character != "/" or len(token) > 1) << position
        elif len(token) == 1 and token != "?":
            advancing |= (token == character) << position
        else:  # a question mark, or a set of characters
            advancing |= (character != "/" and fnmatchcase(character, token)) << position
    return _StepMasks(advancing, staying)

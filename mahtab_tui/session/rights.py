"""What code may do by the user's rules: decided from its text before it runs, and again from what it does while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from mahtab_tui.session.code_reading import CodeEffect, CodeReading, literals, read_code
from mahtab_tui.settings.approval_rules import READ_ONLY, Call, Rule, opened, rule_of

Otherwise = Literal["ask", "allow", "approved", "refuse"]

_FILES, _PROGRAMS, _CONNECTIONS = "files", "programs", "connections"
_TWO_FILES = frozenset(("os.rename", "os.link", "os.symlink", "shutil.move", "shutil.copytree"))
_PROGRAM_MODULES = ("subprocess.", "pty.", "webbrowser.", "multiprocessing.")
_PROGRAM_CALLS = ("os.system", "os.popen", "os.exec", "os.spawn", "os.posix_spawn", "os.fork", "os.kill")
_NETWORK = (
    "socket. socketserver. urllib.request. http.client. http.server. ftplib. smtplib. poplib. imaplib. xmlrpc. requests. httpx. aiohttp. urllib3."
    " websockets. paramiko. boto3. psycopg psycopg2. pymysql. redis. pymongo."
).split()


class Grant(NamedTuple):
    """A kind of effects that a cell may have, because a rule allows a call in it."""

    kind: str
    target: str
    """A glob for the file; ``*`` for any."""


class Rights(NamedTuple):
    """What a cell may do outside the namespace."""

    otherwise: Otherwise = "ask"
    """What happens with an effect that no rule decides. `approved`: the user has read the code, so that only `deny` holds."""
    grants: tuple[Grant, ...] = ()
    why: str = ""
    """If everything is refused: the sentence that says why."""


class Verdict(NamedTuple):
    """What the rules say about code that has not run yet."""

    action: Literal["deny", "ask", "allow", ""]
    """Empty: no rule decides."""
    rule: str = ""
    """The rule that decides, as the user has written it."""
    grants: tuple[Grant, ...] = ()


def verdict_of(rules: Sequence[Rule], code: str) -> Verdict:
    """Decide about code: `deny` before `ask` before `allow`. Code that is not plain Python is never allowed here."""
    if not rules:
        return Verdict("")
    reading = read_code(code)
    if reading is None:
        return Verdict("")
    calls = [*reading.calls, *(effect.call for effect in reading.effects if effect.call is not None)]
    for action in ("deny", "ask"):
        for rule in rules:
            if rule.action == action and any(map(rule.matches, calls)):
                return Verdict(action, rule.text)
    allowing = [rule for rule in rules if rule.action == "allow"]
    read_only = any(rule.name == READ_ONLY for rule in allowing)
    if not allowing or reading.around or not all(_covered(effect, allowing) for effect in reading.effects):
        return Verdict("")
    if not read_only and not all(any(rule.matches(call) for rule in allowing) for call in reading.calls):
        return Verdict("")
    return Verdict("allow", allowing[0].text, tuple(_grants(reading, allowing)))


def decision_on(rules: Sequence[Rule], rights: Rights, kind: str, call: Call, folder: str) -> tuple[Literal["allow", "ask", "refuse"], str]:
    """Decide about an effect that is about to happen; returns the sentence or the rule that decides as well.

    folder: the working directory of the cell, to which files in rules are relative.
    """
    for rule in rules:
        if rule.action == "deny" and rule.matches(call):
            return "refuse", f"The rule {rule.text} forbids this."
    if rights.otherwise == "refuse":
        return "refuse", rights.why
    if rights.otherwise != "approved":
        for rule in rules:
            if rule.action == "ask" and rule.matches(call):
                return "ask", f"the rule {rule.text} asks"
    if rights.otherwise != "ask":
        return "allow", ""
    files = _files(call) if kind == _FILES else []
    granted = any(grant.kind == kind and _fits(grant.target, files, folder) for grant in rights.grants)
    allowed = any(rule.action == "allow" and rule.anywhere().matches(call) and _fits(rule.target, files, folder) for rule in rules if kind == _FILES)
    if granted or allowed or any(rule.action == "allow" and rule.matches(call) for rule in rules if kind != _FILES):
        return "allow", ""
    return "ask", ""


def effect_call(name: str, arguments: Sequence[object]) -> Call:
    """Return an effect as a call that rules can match."""
    if name == "open" and len(arguments) == 2:
        return opened(arguments[0], arguments[1])
    return Call(name, tuple(arguments))


def rules_for(code: str, rules: Sequence[Rule]) -> tuple[str, ...]:
    """Return the smallest rules that would let code like this run without asking, beside those that there are; empty if none can."""
    reading = read_code(code)
    if reading is None or reading.around or verdict_of(rules, code).action in ("deny", "ask", "allow"):
        return ()
    found = {} if any(rule.name == READ_ONLY for rule in rules) else {f"allow: {READ_ONLY}": None}
    for effect in reading.effects:
        if effect.call is not None and not any(rule.action == "allow" and rule.matches(effect.call) for rule in rules):
            found[_rule_for(effect.call)] = None
    try:
        enough = verdict_of([*rules, *map(rule_of, found)], code).action == "allow"
    except ValueError:  # an argument that no rule can hold
        return ()
    return tuple(found) if enough else ()


def _rule_for(call: Call) -> str:
    name = f"*.{call.name.rpartition('.')[2]}" if call.name.startswith("?") else call.name
    arguments = [repr(value) if not isinstance(value, str) else '"' + _escaped(value) + '"' for value in literals(call)]
    return f"allow: {name}({', '.join([*arguments, '*'])})"


def _escaped(text: str) -> str:
    """Return a text as a glob that fits only this text, within quotes."""
    glob = "".join(f"[{character}]" if character in "*?[" else character for character in text)
    return glob.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _covered(effect: CodeEffect, rules: Sequence[Rule]) -> bool:
    if effect.call is None:
        return any(rule.name.startswith(f"{effect.module}.") for rule in rules)
    return any(rule.matches(effect.call) for rule in rules)


def _grants(reading: CodeReading, rules: Sequence[Rule]) -> Iterator[Grant]:
    for effect in reading.effects:
        for rule in rules:
            if effect.call is not None and rule.matches(effect.call):
                target = rule.arguments[0] if rule.arguments and isinstance(rule.arguments[0], str) else "*"
                kind = _kind(effect.call.name)
                yield Grant(kind, target if kind == _FILES else "*")


def _kind(name: str) -> str:
    if name.startswith((*_PROGRAM_CALLS, *_PROGRAM_MODULES)):
        return _PROGRAMS
    return _CONNECTIONS if name.startswith(tuple(_NETWORK)) else _FILES


def _files(call: Call) -> list[str]:
    count = 2 if call.name in _TWO_FILES else 1
    return [each if isinstance(each, str) else "" for each in call.arguments[:count]]


def _fits(target: str, files: Sequence[str], folder: str) -> bool:
    """Whether all files, with links followed, fit a glob."""
    glob = os.path.realpath(os.path.join(folder, os.path.expanduser(target)))
    return target == "*" or (bool(files) and all(fnmatchcase(os.path.realpath(os.path.join(folder, file)), glob) for file in files))

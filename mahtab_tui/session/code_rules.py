"""Applies the user's rules to code. `deny` and `ask` are a convenience, not a protection, because
code can call things by other names."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Literal, NamedTuple

from mahtab_tui.bus.conversation import parse_plain_python
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.session.info import Permission, SessionInfo
from mahtab_tui.session.variables import explain_approval
from mahtab_tui.settings.approval_rules import READ_ONLY, Rule

_LONGEST = 100_000
"""Maximum characters of code to search for calls."""


class Verdict(NamedTuple):
    """A decision of the rules about code. rule: the deciding one."""

    action: Literal["deny", "ask", "allow", "lock", ""]
    """`lock`: in a locked fork; empty if no rule applies."""
    rule: str = ""


class CodeRules:
    """Decides about code of the model or of an agent."""

    def __init__(self, profile: SessionInfo, kernel: Kernel) -> None:
        self._info = profile
        self._kernel = kernel
        self._lock_obstacle: str | None = None
        """Why code cannot run in a locked fork; None if not yet checked."""

    def permission(
        self, code: str, *, author: str, private: Sequence[str], trusted: bool, can_ask: bool = True
    ) -> Permission:
        """private: the private variables that the code uses. trusted: whether its author need not
        ask. can_ask: whether a user can answer."""
        verdict = self.verdict(code)
        if verdict.action == "deny":
            return Permission("deny", f"The user's rule {verdict.rule} forbids it.")
        if private:
            return self.ask(explain_approval(private, author), can_ask=can_ask)
        if verdict.action == "ask":
            return self.ask(f"the rule {verdict.rule} asks", can_ask=can_ask)
        if trusted or verdict.action == "allow":
            return Permission("allow")
        if verdict.action != "lock":
            return Permission("ask")
        if why := self.lock_obstacle():
            return Permission("ask", f"allow: {READ_ONLY} cannot be enforced here: {why}")
        return Permission("lock")

    def ask(self, why: str, *, can_ask: bool) -> Permission:
        """Return that the user must be asked; without one, that the code may not run."""
        if can_ask:
            return Permission("ask", why)
        return Permission("deny", f"{why[0].upper()}{why[1:]}, and no one is here to approve it.")

    def verdict(self, code: str) -> Verdict:
        rules = self._info.rules
        return apply_rules(rules, code) if rules else Verdict("")

    def lock_obstacle(self) -> str:
        """Return why code cannot run in a locked fork, as a clause."""
        if self._lock_obstacle is None:
            try:
                self._lock_obstacle = self._kernel.cannot_lock
            except KernelError as error:
                return str(error).rstrip(".")
        return self._lock_obstacle

    def rules_for(self, code: str) -> tuple[str, ...]:
        """Return the rule that would let code like this run without asking, if there is one."""
        known = self._lock_obstacle or any(rule.name == READ_ONLY for rule in self._info.rules)
        return () if known else (f"allow: {READ_ONLY}",)


def apply_rules(rules: Sequence[Rule], code: str) -> Verdict:
    """Apply `deny` before `ask` before `allow`."""
    tree = parse_plain_python(code) if len(code) <= _LONGEST else None
    names = _mentioned_names(tree) if tree is not None else []
    for action in ("deny", "ask"):
        for rule in rules:
            if rule.action == action and any(map(rule.matches, names)):
                return Verdict(action, rule.text)
    call = "" if tree is None else _single_call(tree)
    for rule in rules:
        if rule.action == "allow" and rule.name != READ_ONLY and call and rule.matches(call):
            return Verdict("allow", rule.text)
    locking = next((rule for rule in rules if rule.name == READ_ONLY), None)
    return Verdict("") if locking is None else Verdict("lock", locking.text)


def _mentioned_names(tree: ast.AST) -> list[str]:
    """Return the full names, without aliases, of all that code calls or mentions."""
    names = _imported_names(tree)
    nodes = ast.walk(tree)
    return [
        _dotted_name(node, names) for node in nodes if isinstance(node, ast.Name | ast.Attribute)
    ]


def _single_call(tree: ast.AST) -> str:
    """Return the name of the call that the code consists of, if all its arguments are plain
    constants."""
    match tree:
        case ast.Module(body=[ast.Expr(value=ast.Call(func=ast.Name() | ast.Attribute()) as node)]):
            values = [*node.args, *(each.value for each in node.keywords if each.arg is not None)]
            if len(values) == len(node.args) + len(node.keywords) and all(map(_is_plain, values)):
                return _dotted_name(node.func, {}).lstrip("?")
    return ""


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None)


def _imported_names(tree: ast.AST) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names.update({alias.asname: alias.name for alias in aliases if alias.asname})
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    names[alias.asname or alias.name] = f"{module}.{alias.name}"
    return names


def _dotted_name(node: ast.AST, names: dict[str, str]) -> str:
    """Return a full name; ``?.read`` for an attribute of something without a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(names.get(node.id, node.id))
    elif parts:
        parts.append("?")
    return ".".join(reversed(parts)).removeprefix("builtins.").removeprefix("__builtins__.")

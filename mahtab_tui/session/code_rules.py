"""Applies the user's rules to code. `deny` and `ask` are a convenience, not a protection, because
code can call things by other names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from mahtab_tui.bus.conversation import parse_plain_python
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.session.info import Permission, SessionInfo
from mahtab_tui.session.protected_names import protected_candidates
from mahtab_tui.session.variables import explain_approval
from mahtab_tui.settings.approval_rules import (
    READ_ONLY,
    UNKNOWN,
    Call,
    Paths,
    Rule,
    open_call,
    parse_rule,
    texts_to_resolve,
)
from mahtab_tui.worker.protected import is_protected

MAX_CODE_CHARS = 100_000
"""Longer code is not searched for calls."""
_BUILTINS = frozenset(("builtins", "__builtins__"))
_OPEN_NAMES = frozenset(("open", "io.open", "builtins.open"))


class Verdict(NamedTuple):
    """A decision of the rules about code. rule: the deciding one."""

    action: Literal["deny", "ask", "allow", "lock", ""]
    """`lock`: in a locked fork; empty if no rule applies."""
    rule: str = ""


class CodeRules:
    """Decides about code of the model or of an agent."""

    def __init__(
        self, info: SessionInfo, kernel: Kernel, means_same: Callable[[str], bool]
    ) -> None:
        """means_same: whether a dotted name still is what the user called by it."""
        self._info = info
        self._kernel = kernel
        self._means_same = means_same
        self._lock_obstacle: str | None = None
        """Why code cannot run in a locked fork; None if not yet checked."""

    def permission(
        self,
        code: str,
        *,
        author: str,
        private: Sequence[str],
        trusted: bool,
        planning: bool = False,
        can_ask: bool = True,
    ) -> Permission:
        """Decide whether code may run.

        Args:
            code: The code.
            author: Who wants to run it, for the reason.
            private: The private variables that the code uses.
            trusted: Whether its author need not ask.
            planning: Whether it can only run in a locked fork.
            can_ask: Whether a user is there to answer.
        """
        verdict = self.verdict(code)
        if verdict.action == "deny":
            return Permission("deny", f"The user's rule {verdict.rule} forbids it.")
        if private:
            return self.ask(explain_approval(private, author), can_ask=can_ask)
        if verdict.action == "ask":
            return self.ask(f"the rule {verdict.rule} asks", can_ask=can_ask)
        if planning:
            return Permission("allow")

        # A locked fork cannot change any file.
        will_lock = verdict.action == "lock" and not trusted and not self.lock_obstacle()
        if not will_lock and (file := self.protected_file(code)):
            reason = f"it may change {file}, which only code that you approve may do"
            return self.ask(reason, can_ask=can_ask)
        if trusted or verdict.action == "allow":
            return Permission("allow")
        if verdict.action != "lock":
            return Permission("ask")
        if obstacle := self.lock_obstacle():
            return Permission("ask", f"allow: {READ_ONLY} cannot be enforced here: {obstacle}")
        return Permission("lock")

    def ask(self, reason: str, *, can_ask: bool) -> Permission:
        """Return that the user must be asked; without one, that the code may not run. reason: a
        clause."""
        if can_ask:
            return Permission("ask", reason)
        sentence = f"{reason[0].upper()}{reason[1:]}, and no one is here to approve it."
        return Permission("deny", sentence)

    def verdict(self, code: str) -> Verdict:
        """Apply the user's rules to code."""
        rules = self._info.rules
        if not rules:
            return Verdict("")
        return apply_rules(rules, code, self.resolve_paths, self._means_same)

    def resolve_paths(self, texts: Iterable[str]) -> Paths:
        """Ask the kernel where texts lead as paths; empty if it does not answer."""
        sorted_texts = sorted(texts)
        if not sorted_texts:
            return {}
        try:
            paths = self._kernel.resolve_paths(sorted_texts)
        except KernelError:
            return {}
        return dict(zip(sorted_texts, paths, strict=True))

    def protected_file(self, code: str) -> str:
        """Return the protected file or folder that code may change, as far as its text shows; empty
        if there is none."""
        texts = protected_candidates(code)
        for text in texts:
            if is_protected(text):
                return text

        # A link or the working folder may lead to one.
        paths = self.resolve_paths(texts)
        for text in texts:
            path = paths.get(text)
            if path is not None and any(map(is_protected, path)):
                return text
        return ""

    def lock_obstacle(self) -> str:
        """Return why code cannot run in a locked fork, as a clause; empty if it can."""
        if self._lock_obstacle is None:
            try:
                self._lock_obstacle = self._kernel.cannot_lock
            except KernelError as error:
                return str(error).rstrip(".")
        return self._lock_obstacle

    def rules_for(self, code: str) -> tuple[str, ...]:
        """Return the rule that would let code like this run without asking, if there is one. Asks
        the kernel nothing, so that the main thread can call this."""
        if any(map(is_protected, protected_candidates(code))):
            return ()
        if not self._lock_obstacle and not any(rule.name == READ_ONLY for rule in self._info.rules):
            return (f"allow: {READ_ONLY}",)
        call = parse_single_call(code)
        verdict = apply_rules(self._info.rules, code, lambda texts: {}, self._means_same)
        if call is None or verdict.action in ("deny", "ask", "allow"):
            return ()
        rule = exact_rule(call)
        try:
            parse_rule(rule)
        except ValueError:  # too long, or with a number that rules do not have
            return ()
        return (rule,)


def apply_rules(
    rules: Sequence[Rule],
    code: str,
    resolve: Callable[[Iterable[str]], Paths],
    means_same: Callable[[str], bool],
) -> Verdict:
    """Apply `deny` before `ask` before `allow`. resolve: finds where texts lead as paths.
    means_same: whether a dotted name still is what the user called by it."""
    # Code may call a function named `read_only`.
    call_rules = [rule for rule in rules if rule.name != READ_ONLY]
    calls = find_calls(code)
    single_call = parse_single_call(code)
    allowed_calls = [single_call] if single_call and means_same(single_call.name) else []
    paths = resolve(texts_to_resolve(call_rules, [*calls, *allowed_calls]))

    for action, candidates in (("deny", calls), ("ask", calls), ("allow", allowed_calls)):
        for rule in call_rules:
            if rule.action == action and any(rule.matches(call, paths) for call in candidates):
                return Verdict(rule.action, rule.text)
    locking = next((rule for rule in rules if rule.name == READ_ONLY), None)
    return Verdict("") if locking is None else Verdict("lock", locking.text)


def _parse(code: str) -> ast.AST | None:
    return parse_plain_python(code) if len(code) <= MAX_CODE_CHARS else None


def find_calls(code: str) -> list[Call]:
    """Return the calls in code, and the functions it names, by full names without aliases."""
    tree = _parse(code)
    if tree is None:
        return []
    names = _imported_names(tree)
    nodes = list(ast.walk(tree))
    call_nodes = [node for node in nodes if isinstance(node, ast.Call)]
    called_nodes = {id(node.func) for node in call_nodes}
    mentioned_names = (
        _dotted_name(node, names)
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in called_nodes
    )
    return [
        *(_call(node, names) for node in call_nodes),
        *(Call(name, starred=True) for name in mentioned_names if name and name != "?"),
    ]


def parse_single_call(code: str) -> Call | None:
    """Return the call that the code consists of, if all its arguments are plain constants."""
    match _parse(code):
        case ast.Module(body=[ast.Expr(value=ast.Call(func=ast.Name() | ast.Attribute()) as node)]):
            if not _BUILTINS.isdisjoint(ast.unparse(node.func).split(".")[:1]):
                return None  # code may give this name to another module
            call = _call(node, {})
            values = (*call.arguments, *call.keywords.values())
            plain = all(isinstance(value, str | int | float | None) for value in values)
            return call if plain and not call.starred and not call.name.startswith("?") else None
    return None


def exact_rule(call: Call) -> str:
    """Return the rule that allows exactly this call."""
    named = [f"{name}={_literal(value)}" for name, value in call.keywords.items()]
    return f"allow: {call.name}({', '.join([*map(_literal, call.arguments), *named])})"


def _literal(value: object) -> str:
    """Return a value as a rule has it. A string becomes a quoted glob that matches only this
    string."""
    if not isinstance(value, str):
        return repr(value)
    return '"' + "".join(map(_quote_character, value)) + '"'


def _quote_character(character: str) -> str:
    if character in "*?[":
        return f"[{character}]"
    if character in '\\"':
        return f"\\{character}"
    if not character.isprintable():
        return character.encode("unicode_escape").decode("ascii")
    return character


def _call(node: ast.Call, names: dict[str, str]) -> Call:
    name = _dotted_name(node.func, names) or "?"
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    starred |= any(keyword.arg is None for keyword in node.keywords)
    arguments = tuple(map(_value, node.args))
    keywords = {
        keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg is not None
    }
    if name in _OPEN_NAMES and not starred and (arguments or "file" in keywords):
        path = arguments[0] if arguments else keywords.pop("file")
        mode = arguments[1] if len(arguments) > 1 else keywords.pop("mode", "r")
        return open_call(path, mode, keywords)
    return Call(name, arguments, keywords, starred)


def _value(node: ast.expr) -> object:
    """Return what an argument is, as far as the code shows; else `UNKNOWN`."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element) for element in elements]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
    return UNKNOWN


def _imported_names(tree: ast.AST) -> dict[str, str]:
    """Return full names by the aliases that code imports."""
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

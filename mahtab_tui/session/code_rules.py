"""Applies the user's rules to code. `deny` and `ask` are a convenience, not a protection, because
code can call functions by other names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.values import Lock
from mahtab_tui.session.code_calls import (
    exact_rule,
    find_calls,
    parse_single_call,
    unread_part,
)
from mahtab_tui.session.info import PLAN_REFUSAL, SessionInfo
from mahtab_tui.session.private_names import explain_approval
from mahtab_tui.session.protected_names import protected_candidates, unreadable_command_part
from mahtab_tui.session.user_requests import Permission
from mahtab_tui.settings.approval_rules import READ_ONLY, Paths, Rule, parse_rule, texts_to_resolve
from mahtab_tui.worker.guard.protected_places import is_protected


class Verdict(NamedTuple):
    """What the rules say about code."""

    action: Literal["deny", "ask", "allow", "lock", ""]
    """`lock`: it may run in a locked fork; empty if no rule applies."""
    rule: str = ""
    """The text of the deciding rule; empty if no rule applies."""
    reason: str = ""
    """Why it asks, as a clause; empty if the rule says so."""


class CodeRules:
    """Decides about code of the model or of an agent."""

    def __init__(
        self, info: SessionInfo, kernel: Kernel, means_same: Callable[[str], bool]
    ) -> None:
        """Store what the decisions depend on.

        Args:
            info: The session's rules.
            kernel: The kernel in which the code would run.
            means_same: Returns whether a dotted name still stands for what the user called by it,
                as far as is known without asking the kernel.
        """
        self._info = info
        self._kernel = kernel
        self._means_same = means_same
        self._lock_obstacle: str | None = None
        """Why code cannot run in a locked fork; None if not yet checked."""

    def clear_code(
        self,
        code: str,
        run_in_fork: Callable[[Lock], str],
        *,
        author: str,
        private: Sequence[str],
        trusted: bool,
        planning: bool = False,
        can_ask: bool = True,
    ) -> Permission:
        """Decide whether code may run, and wait for that. Code that may only run in a locked fork
        runs there at once, which tells whether it needs more.

        Args:
            code: The code.
            run_in_fork: Runs the code in a locked fork, and returns what it needs beyond the lock,
                as a clause; empty if it has done its work.
            author: Who wants to run it, for the reason.
            private: The private variables that the code uses.
            trusted: Whether its author need not ask.
            planning: Whether all code runs in a locked fork that is discarded.
            can_ask: Whether a user is there to answer.

        Returns:
            `allow`, `ask` or `deny`; `allow` also for code that has run in a fork.
        """
        # In a plan, nobody is asked: what would be asked becomes the reason for refusing the code.
        permission = self.permission(
            code,
            author=author,
            private=private,
            trusted=trusted,
            planning=planning,
            can_ask=can_ask or planning,
        )
        if permission.action == "deny":
            return permission
        if planning:
            reason = permission.reason or self.lock_obstacle() or run_in_fork("discard")
            if reason:
                return Permission("deny", f"{PLAN_REFUSAL} This code may not run yet: {reason}.")
            return Permission("allow")
        if permission.action == "lock":
            needs = run_in_fork("keep")
            return self._ask_or_deny(needs, can_ask=can_ask) if needs else Permission("allow")
        return permission

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
        """Decide whether code may run, without running it. The arguments are those of `clear_code`."""
        verdict = self.verdict(code)
        if verdict.action == "deny":
            return Permission("deny", f"The user's rule {verdict.rule} forbids it.")
        if private:
            return self._ask_or_deny(explain_approval(private, author), can_ask=can_ask)
        if verdict.action == "ask":
            reason = verdict.reason or f"the rule {verdict.rule} asks"
            return self._ask_or_deny(reason, can_ask=can_ask)
        if planning:
            return Permission("allow")

        # Protected files are safe in a locked fork, which cannot change any file.
        will_lock = verdict.action == "lock" and not trusted and not self.lock_obstacle()
        if not will_lock and (file := self.protected_file(code)):
            reason = f"it may change {file}, which only code that you approve may do"
            return self._ask_or_deny(reason, can_ask=can_ask)
        if not will_lock and (part := self._unreadable_command(code)):
            reason = f"it may change protected files: {part} does not show which"
            return self._ask_or_deny(reason, can_ask=can_ask)
        if trusted or verdict.action == "allow":
            return Permission("allow")

        # What remains is code that no rule allows, or that may run in a locked fork.
        if verdict.action != "lock":
            return Permission("ask", self._unused_rule_reason(code))
        if obstacle := self.lock_obstacle():
            return Permission("ask", f"allow: {READ_ONLY} cannot be enforced here: {obstacle}")
        return Permission("lock")

    def _ask_or_deny(self, reason: str, *, can_ask: bool) -> Permission:
        """Return that the user must be asked.

        Args:
            reason: Why, as a clause.
            can_ask: Whether a user is there to answer; if not, the code may not run.
        """
        if can_ask:
            return Permission("ask", reason)
        sentence = f"{reason[0].upper()}{reason[1:]}, and no one is here to approve it."
        return Permission("deny", sentence)

    def verdict(self, code: str) -> Verdict:
        """Apply the user's rules to code. May ask the kernel."""
        rules = self._info.rules
        if not rules:
            return Verdict("")
        return apply_rules(rules, code, self.resolve_paths, lambda name: not self._rebinding(name))

    def _unused_rule_reason(self, code: str) -> str:
        """Return why a rule that allows this code does not apply, as a clause; empty if there is no
        such rule."""
        call = parse_single_call(code)
        if call is None:
            return ""
        # A rule that would allow the code, if its name still meant the same.
        verdict = apply_rules(self._info.rules, code, self.resolve_paths, lambda name: True)
        return self._rebinding(call.name) if verdict.action == "allow" else ""

    def _rebinding(self, name: str) -> str:
        """Return why a call of a dotted name may not do what the user has allowed, as a clause. It is
        empty if no unapproved code has changed the name, or a name that its function reads."""
        root = name.partition(".")[0]
        if not self._means_same(name):
            return f"code that you have not approved has changed {root}"
        try:
            names_read = self._kernel.names_read(root)
        except KernelError:
            return f"the kernel does not tell what {root} uses"
        for name_read in names_read.names:
            if name_read != root and not self._means_same(name_read):
                return f"code that you have not approved has changed {name_read}, which {root} uses"
        if not names_read.is_complete:
            return f"{root} uses too many objects to look at"
        if names_read.last_cell_with_leftovers:
            cell = names_read.last_cell_with_leftovers
            return (
                f"code that you have not approved (cell {cell}) went on after its cell, and may have"
                f" changed what {root} does"
            )
        return ""

    def resolve_paths(self, texts: Iterable[str]) -> Paths:
        """Ask the kernel where texts lead if they are used as paths; empty if it does not answer."""
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

    def _unreadable_command(self, code: str) -> str:
        """Return the part of a shell command because of which it is not known which files code changes;
        empty if there is none, or if the kernel keeps programs from protected files."""
        part = unreadable_command_part(code)
        if not part:
            return ""
        try:
            return "" if self._kernel.protects_files else part
        except KernelError:
            return part

    def lock_obstacle(self) -> str:
        """Return why code cannot run in a locked fork, as a clause; empty if it can."""
        if self._lock_obstacle is None:
            try:
                self._lock_obstacle = self._kernel.lock_unavailable_reason
            except KernelError as error:
                return str(error).rstrip(".")
        return self._lock_obstacle

    def rules_for(self, code: str) -> tuple[str, ...]:
        """Return the rule that would let code like this run without asking, if there is one. Asks
        the kernel nothing, so that the main thread can call this."""
        if any(map(is_protected, protected_candidates(code))) or unreadable_command_part(code):
            return ()
        # Offer the general rule first, unless it is set already or cannot be enforced.
        has_read_only_rule = any(rule.name == READ_ONLY for rule in self._info.rules)
        if not self._lock_obstacle and not has_read_only_rule:
            return (f"allow: {READ_ONLY}",)

        call = parse_single_call(code)
        verdict = apply_rules(self._info.rules, code, lambda texts: {}, self._means_same)
        if call is None or verdict.action in ("deny", "ask", "allow"):
            return ()
        try:
            rule = exact_rule(call)
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
    """Apply rules to code: those that deny first, then those that ask, then those that allow.

    Args:
        rules: The rules.
        code: The code.
        resolve: Returns where texts lead if they are used as paths.
        means_same: Returns whether a dotted name still stands for what the user called by it.
    """
    # In a rule, `read_only` does not name a function, even if the code calls one of that name.
    call_rules = [rule for rule in rules if rule.name != READ_ONLY]
    calls = find_calls(code)
    single_call = parse_single_call(code)
    single_calls = [single_call] if single_call else []
    paths = resolve(texts_to_resolve(call_rules, [*calls, *single_calls]))

    for action in ("deny", "ask"):
        for rule in call_rules:
            if rule.action == action and any(rule.matches(call, paths) for call in calls):
                return Verdict(rule.action, rule.text)

    # What cannot be read may be what the first rule is about.
    limiting_rules = [rule for rule in call_rules if rule.action != "allow"]
    if limiting_rules and (unread := unread_part(code)):
        rule = limiting_rules[0]
        return Verdict("ask", rule.text, f"the rule {rule.text} may be about it: {unread}")

    # A rule that allows a call says nothing about other code around it.
    if single_call is not None:
        allow_rules = [
            rule
            for rule in call_rules
            if rule.action == "allow" and rule.matches(single_call, paths)
        ]
        if allow_rules and means_same(single_call.name):
            return Verdict("allow", allow_rules[0].text)

    for rule in rules:
        if rule.name == READ_ONLY:
            return Verdict("lock", rule.text)
    return Verdict("")

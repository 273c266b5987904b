"""Applies the user's rules to code of the model and of agents.

Rules that deny or ask are a convenience and not a protection, because code can call functions by other
names.
"""

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
from mahtab_tui.session.protected_names import (
    protected_candidates,
    shell_commands,
    unreadable_command_part,
)
from mahtab_tui.session.user_requests import Permission
from mahtab_tui.settings.approval_rules import READ_ONLY, Paths, Rule, parse_rule, texts_to_resolve
from mahtab_tui.worker.guard.protected_commands import UNKNOWN_FILE, command_only_reads
from mahtab_tui.worker.guard.protected_places import is_protected


class Verdict(NamedTuple):
    """What the rules say about code."""

    action: Literal["deny", "ask", "allow", "lock", ""]
    """`lock` means that the code may run in a locked fork. Empty if no rule applies."""
    rule: str = ""
    """The text of the deciding rule; empty if no rule applies."""
    reason: str = ""
    """A clause that says why the user is asked, unless the rule itself says so."""


class CodeRequest(NamedTuple):
    """Code that the model or an agent wants to run."""

    code: str
    author: str
    """Who wants to run it, for the reason that the user reads."""
    private: Sequence[str]
    """The private variables that it uses."""
    trusted: bool
    """Whether no question is needed where neither rules, private variables nor protected files require
    one."""
    planning: bool = False
    """Whether it belongs to a plan. Then it runs in a locked fork that is discarded."""
    can_ask: bool = True
    """Whether a user is there to answer."""


class CodeRules:
    """Decides whether code of the model or of an agent may run."""

    def __init__(
        self, info: SessionInfo, kernel: Kernel, means_same: Callable[[str], bool]
    ) -> None:
        """
        Args:
            info: The session's information, which has the rules.
            kernel: The kernel in which the code would run.
            means_same: Gets a dotted name, and returns whether it still stands for what the user called
                by it, as far as that is known without asking the kernel.
        """
        self._info = info
        self._kernel = kernel
        self._means_same = means_same
        self._lock_obstacle: str | None = None
        """A clause that says why code cannot run in a locked fork; empty if it can, and None until the
        kernel has answered."""

    def clear_code(self, request: CodeRequest, run_in_fork: Callable[[Lock], str]) -> Permission:
        """Decide whether code may run, and run it if it may do so in a locked fork.

        Waits for the kernel, and for the fork.

        Args:
            request: The code, and who wants to run it.
            run_in_fork: Runs the code in a locked fork. Returns a clause that says what the code needs
                that the fork does not allow; empty if the code has done its work.

        Returns:
            `ask` or `deny`, with the reason, or `allow`. It is also `allow` if the code has already run
            in a fork.
        """
        if request.planning:
            return self._clear_plan(request, run_in_fork)
        permission = self.permission(request)
        if permission.action != "lock":
            return permission
        unmet_need = run_in_fork("keep")
        if unmet_need:
            return self._ask_or_deny(unmet_need, can_ask=request.can_ask)
        return Permission("allow")

    def _clear_plan(self, request: CodeRequest, run_in_fork: Callable[[Lock], str]) -> Permission:
        """Decide about code of a plan, as `clear_code` does.

        Nobody is asked: what the user would be asked is the reason to refuse the code.
        """
        permission = self.permission(request._replace(can_ask=True))
        if permission.action == "deny":
            return permission
        refusal = permission.reason or self.lock_obstacle() or run_in_fork("discard")
        if refusal:
            return Permission("deny", f"{PLAN_REFUSAL} This code may not run yet: {refusal}.")
        return Permission("allow")

    def permission(self, request: CodeRequest) -> Permission:
        """Decide whether code may run, without running it.

        Waits for the kernel.

        Returns:
            `allow`, `lock` if it may run in a locked fork, or `ask` or `deny` with the reason.
        """
        code = request.code
        can_ask = request.can_ask
        verdict = self.verdict(code)
        if verdict.action == "deny":
            return Permission("deny", f"The user's rule {verdict.rule} forbids it.")
        if request.private:
            reason = explain_approval(request.private, request.author)
            return self._ask_or_deny(reason, can_ask=can_ask)
        if verdict.action == "ask":
            reason = verdict.reason or f"the rule {verdict.rule} asks"
            return self._ask_or_deny(reason, can_ask=can_ask)
        if request.planning:
            return Permission("allow")

        # Protected files are safe from a locked fork, which cannot change any file.
        may_lock = verdict.action == "lock" and not request.trusted
        if not may_lock or self.lock_obstacle():
            danger = self._danger_for_protected_files(code)
            if danger:
                return self._ask_or_deny(danger, can_ask=can_ask)
        if request.trusted or verdict.action == "allow":
            return Permission("allow")

        # What remains is code that no rule allows, or that may run in a locked fork.
        if verdict.action != "lock":
            return Permission("ask", self._unused_rule_reason(code))
        obstacle = self.lock_obstacle()
        if obstacle:
            return Permission("ask", f"allow: {READ_ONLY} cannot be enforced here: {obstacle}")
        return Permission("lock")

    def _danger_for_protected_files(self, code: str) -> str:
        """Return how code may change protected files, as a clause; empty if it does not."""
        file = self.protected_file(code)
        if file:
            return f"it may change {file}, which only code that you approve may do"
        command_part = self._unreadable_command(code)
        if command_part:
            return f"it may change protected files: {command_part} does not show which"
        return ""

    def _ask_or_deny(self, reason: str, *, can_ask: bool) -> Permission:
        """Return that the user must be asked, or if nobody can be, that the code may not run.

        Args:
            reason: A clause that says why.
            can_ask: Whether a user is there to answer.
        """
        if can_ask:
            return Permission("ask", reason)
        sentence = f"{reason[0].upper()}{reason[1:]}, and no one is here to approve it."
        return Permission("deny", sentence)

    def verdict(self, code: str) -> Verdict:
        """Apply the user's rules to code. Waits for the kernel."""
        rules = self._info.rules
        if not rules:
            return Verdict("")

        def does_the_same(name: str) -> bool:
            return not self._rebinding_reason(name)

        return apply_rules(rules, code, self.resolve_paths, does_the_same)

    def _unused_rule_reason(self, code: str) -> str:
        """Return why a rule does not allow code that it would have allowed before, as a clause.

        It is empty if there is no such rule.
        """
        call = parse_single_call(code)
        if call is None:
            return ""
        verdict_before = apply_rules(self._info.rules, code, self.resolve_paths, lambda name: True)
        if verdict_before.action != "allow":
            return ""
        return self._rebinding_reason(call.name)

    def _rebinding_reason(self, name: str) -> str:
        """Return why a call of a dotted name may not do what the user has allowed, as a clause.

        It is empty if no unapproved code has changed the name, or a name that its function reads.
        """
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
        """Return the places in the file system to which texts lead if they are used as paths.

        Waits for the kernel.

        Returns:
            For each text its places; empty if the kernel does not answer.
        """
        sorted_texts = sorted(texts)
        if not sorted_texts:
            return {}
        try:
            paths = self._kernel.resolve_paths(sorted_texts)
        except KernelError:
            return {}
        return dict(zip(sorted_texts, paths, strict=True))

    def protected_file(self, code: str) -> str:
        """Return the protected file or folder that code may change, as far as its text shows.

        It is empty if there is none. Waits for the kernel.
        """
        texts = protected_candidates(code)
        for text in texts:
            if is_protected(text):
                return text

        # A text may lead to such a file from the working folder, or through a link.
        paths = self.resolve_paths(texts)
        for text in texts:
            path = paths.get(text)
            if path is not None and any(map(is_protected, path)):
                return text
        return self._file_changed_by_commands(code)

    def _file_changed_by_commands(self, code: str) -> str:
        """Return the protected file that a shell command in code changes by a pattern or a folder.

        It is empty if there is none, and words for any such file if the kernel does not answer.
        """
        commands = [command for command in shell_commands(code) if not command_only_reads(command)]
        if not commands:
            return ""
        try:
            return next(filter(None, self._kernel.files_changed_by_commands(commands)), "")
        except KernelError:
            return UNKNOWN_FILE

    def _unreadable_command(self, code: str) -> str:
        """Return the part of a shell command that hides which files the command changes.

        It is empty if there is none, or if the kernel keeps programs from changing protected files.
        """
        part = unreadable_command_part(code)
        if not part:
            return ""
        try:
            return "" if self._kernel.protects_files else part
        except KernelError:
            return part

    def lock_obstacle(self) -> str:
        """Return why code cannot run in a locked fork, as a clause; empty if it can.

        Waits for the kernel until it has answered once.
        """
        if self._lock_obstacle is None:
            try:
                self._lock_obstacle = self._kernel.lock_unavailable_reason
            except KernelError as error:
                return str(error).rstrip(".")
        return self._lock_obstacle

    def rules_for(self, code: str) -> tuple[str, ...]:
        """Return the rules to offer to the user so that code like this runs without asking.

        Does not wait for the kernel, so the main thread may call it.

        Returns:
            One rule, or none if no rule can allow the code.
        """
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
    """Return what rules say about code. Rules that deny come first, then rules that ask, then others.

    Args:
        rules: The rules.
        code: The code.
        resolve: Gets texts, and returns where they lead if they are used as paths.
        means_same: Gets a dotted name, and returns whether it still stands for what the user called by
            it.
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

    # A part of the code that cannot be read may be what a rule is about.
    limiting_rules = [rule for rule in call_rules if rule.action != "allow"]
    unread = unread_part(code) if limiting_rules else ""
    if unread:
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

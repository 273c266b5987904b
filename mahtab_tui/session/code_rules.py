"""Applies the user's rules to code before it runs. Loads what reads code only if there are rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.session.profile import Profile

if TYPE_CHECKING:
    from mahtab_tui.session.rights import Rights, Verdict

_PLAN = "This is a plan: nothing changes until the user accepts it."
_LATER = frozenset("create_task ensure_future call_later call_soon call_at run_in_executor to_thread TaskGroup start submit".split())
"""Calls that let code go on after its cell."""
RunsBy = Literal["rules", "mode", "user"]
"""Why code runs: a rule allows it, the approval mode asks about none, or the user has approved this code."""


class CodeRules:
    """Decides about code of the model or an agent by rules."""

    def __init__(self, profile: Profile, kernel: Kernel) -> None:
        self._profile = profile
        self._kernel = kernel

    def verdict(self, code: str) -> Verdict | None:
        """Return what the rules say about code; None if there are none. In a kernel that holds no cell to its limits, nothing is allowed."""
        if not self._profile.rules:
            return None
        from mahtab_tui.session.rights import verdict_of

        verdict = verdict_of(self._profile.rules, code)
        return verdict._replace(action="") if verdict.action == "allow" and self._kernel.cannot_limit else verdict

    def while_planning(self, code: str, why: str) -> Rights | str:
        """Return what code may do while the model only plans, or a sentence that says why it does not run. why: the caller's own reason."""
        from mahtab_tui.session.code_reading import read_code
        from mahtab_tui.session.rights import Rights, verdict_of
        from mahtab_tui.settings.approval_rules import rule_of

        if why := why or self._kernel.cannot_limit or self._kernel.cannot_undo:
            return f"This is a plan, in which nothing may change, and that cannot be held here: {why}."
        deciding = [rule for rule in self._profile.rules if rule.action != "allow"]
        reading = read_code(code)
        later = reading is not None and any(call.name.rpartition(".")[2] in _LATER for call in reading.calls)
        if later or verdict_of([*deciding, rule_of("allow: read_only")], code).action != "allow":
            return f"{_PLAN} This code does more than read, or could."
        return Rights("refuse", why=_PLAN)

    def rules_for(self, code: str) -> tuple[str, ...]:
        """Return the smallest rules that would let code like this run without asking; empty if none can."""
        if self._kernel.cannot_limit:
            return ()
        from mahtab_tui.session.rights import rules_for

        return rules_for(code, self._profile.rules)

    def rights(self, verdict: Verdict | None, by: RunsBy) -> Rights | None:
        """Return what code may do when it runs; None for everything."""
        if verdict is None or self._kernel.cannot_limit:
            return None
        from mahtab_tui.session.rights import Rights

        if by == "rules":
            return Rights("ask", verdict.grants)
        actions = {rule.action for rule in self._profile.rules}
        if by == "mode":
            return Rights("allow") if actions & {"deny", "ask"} else None
        return Rights("approved") if "deny" in actions else None

"""Calls of tools and loaded skills, as entries of the transcript."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.bus.left_out import tool_entry
from mahtab_tui.bus.records import AssistantTool, Skill
from mahtab_tui.tui.panes.transcript.entries import Entry, ToolUse


class ToolUses:
    """The calls by their ids."""

    def __init__(self, append: Callable[[Entry], None], touch: Callable[[Entry], None]) -> None:
        self._append = append
        self._touch = touch
        self._uses: dict[str, ToolUse] = {}

    def fold(self, record: AssistantTool, *, was: bool) -> ToolUse:
        """Take in that a call begins, or what became of it. was: of an earlier time, of which nothing runs now."""
        key, state = tool_entry(record.call), record.state
        use = self._uses.get(key)
        if use is None:
            party = record.party or "model"
            use = self._uses[key] = ToolUse(party=party, name=record.name, arguments=record.arguments, key=key, folded=True, joined=True)
            self._append(use)
        use.state = "cut off" if state == "running" and was else state
        use.text = record.text
        self._touch(use)
        return use


def skill_sentence(skill: Skill) -> str:
    """What has become of a skill."""
    return f"the skill {skill.name} is loaded ({skill.chars:,} characters)" if skill.loaded else f"the skill {skill.name} is no longer loaded"

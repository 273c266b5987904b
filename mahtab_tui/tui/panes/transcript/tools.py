"""Builds entries from tool calls and loaded skills."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.bus.left_out import tool_entry
from mahtab_tui.bus.records import AssistantTool, Skill
from mahtab_tui.tui.panes.transcript.entries import Entry, ToolUse


class ToolUses:
    """Builds the entries of tool calls."""

    def __init__(self, append: Callable[[Entry], None], touch: Callable[[Entry], None]) -> None:
        self._append = append
        self._touch = touch
        self._uses: dict[str, ToolUse] = {}

    def fold(self, record: AssistantTool, *, was: bool) -> ToolUse:
        """Add the start or result of a call. was: the record is from an earlier session, so nothing runs any more."""
        key, state = tool_entry(record.call), record.state
        use = self._uses.get(key)
        if use is None:
            party = record.party or "model"
            use = self._uses[key] = ToolUse(party=party, name=record.name, arguments=record.arguments, key=key, collapsed=True, joined=True)
            self._append(use)
        use.state = "cut off" if state == "running" and was else state
        use.text = record.text
        self._touch(use)
        return use


def skill_sentence(skill: Skill) -> str:
    """Return a sentence about a loaded or unloaded skill."""
    return f"the skill {skill.name} is loaded ({skill.chars:,} characters)" if skill.loaded else f"the skill {skill.name} is no longer loaded"

"""Calls of tools and loaded skills, as entries of the transcript."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.bus.left_out import tool_entry
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.panes.transcript.entries import Entry, ToolUse


class ToolUses:
    """The calls by their ids."""

    def __init__(self, append: Callable[[Entry], None], touch: Callable[[Entry], None]) -> None:
        self._append = append
        self._touch = touch
        self._uses: dict[str, ToolUse] = {}

    def fold(self, record: Record, *, was: bool) -> ToolUse:
        """Take in that a call begins, or what became of it. was: of an earlier time, of which nothing runs now."""
        attrs = record.attrs
        key, state = tool_entry(attrs.get("call")), str(attrs.get("state"))
        use = self._uses.get(key)
        if use is None:
            party, name, arguments = (str(attrs.get(each)) for each in ("party", "name", "arguments"))
            use = self._uses[key] = ToolUse(party=party, name=name, arguments=arguments, key=key, folded=True, joined=True)
            self._append(use)
        use.state = "cut off" if state == "running" and was else state
        use.text = record.text
        self._touch(use)
        return use


def skill_sentence(record: Record) -> str:
    """What a `skill` record tells."""
    name, chars = record.attrs.get("name"), record.attrs.get("chars")
    return f"the skill {name} is loaded ({chars:,} characters)" if record.attrs.get("loaded") else f"the skill {name} is no longer loaded"

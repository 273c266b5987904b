"""What ran, as a model is told."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.agent.state import ExecutionResult
from mahtab_tui.bus.formatters import to_xml
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.records import AssistantReplIn, AssistantReplOut
from mahtab_tui.bus.told import told, told_output

LIMIT = 12_000
"""Characters of one output that go to the model."""


def render_results(results: Sequence[ExecutionResult], *, with_code: bool = False, limit: int = LIMIT) -> str:
    """The outputs as records of the bus, defused; with the code for a reader who has not written it, and where the person edited it."""
    return "\n".join(_render(result, with_code, limit) for result in results)


def _render(result: ExecutionResult, with_code: bool, limit: int) -> str:
    parts = [result["note"]] if result["note"] else []
    ran = result["status"] != "skipped"
    if with_code or (ran and result["note"]):
        parts.append(to_xml(AssistantReplIn(shorten(told(result["code"]), limit), cell=result["cell"])))
    if ran:
        output = shorten(told_output(result["output"], rewritten=result.get("rewritten", False)).rstrip(), limit) or "(nothing was printed)"
        parts.append(to_xml(AssistantReplOut(output, cell=result["cell"], status=result["status"])))
    return "\n".join(parts)

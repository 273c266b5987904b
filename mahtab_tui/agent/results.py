"""Formats the results of code for models."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.agent.state import ExecutionResult
from mahtab_tui.bus.escaping import escape_for_model, escape_output
from mahtab_tui.bus.formatters import to_xml
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.records import AssistantReplIn, AssistantReplOut

LIMIT = 12_000
"""Characters of one output."""


def render_results(
    results: Sequence[ExecutionResult], *, with_code: bool = False, limit: int = LIMIT
) -> str:
    """Format outputs as defused records. The code is included if the user edited it, or for a
    reader who did not write it (`with_code`)."""
    return "\n".join(_render(result, with_code, limit) for result in results)


def _render(result: ExecutionResult, with_code: bool, limit: int) -> str:
    parts = [result["note"]] if result["note"] else []
    ran = result["status"] not in ("skipped", "repeated")
    if with_code or (ran and result["note"]):
        parts.append(
            to_xml(
                AssistantReplIn(
                    shorten(escape_for_model(result["code"]), limit), cell=result["cell"]
                )
            )
        )
    if ran:
        output = (
            shorten(
                escape_output(result["output"], rewritten=result.get("rewritten", False)).rstrip(),
                limit,
            )
            or "(nothing was printed)"
        )
        output = "\n\n".join(
            [output, escape_for_model(made)] if (made := result.get("variables")) else [output]
        )
        parts.append(to_xml(AssistantReplOut(output, cell=result["cell"], status=result["status"])))
    return "\n".join(parts)

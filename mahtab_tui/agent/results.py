"""What ran, as the model is told."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.agent.state import ExecutionResult
from mahtab_tui.bus import tags
from mahtab_tui.bus.formatters import XMLFormatter
from mahtab_tui.bus.handlers import shortened
from mahtab_tui.bus.overwrite import collapse
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain

LIMIT = 12_000
"""Characters of one output that go to the model."""


def render_results(results: Sequence[ExecutionResult], *, with_code: bool = False) -> str:
    """The outputs as records of the bus, defused; with the code for a reader who has not written it."""
    return "\n".join(_render(result, with_code) for result in results)


def _render(result: ExecutionResult, with_code: bool) -> str:
    formatter = XMLFormatter()
    output = shortened(plain(collapse(result["output"])), LIMIT).rstrip()
    attrs = {"cell": result["cell"] or None, "status": result["status"]}
    parts = [result["note"]] if result["note"] else []
    if with_code:
        parts.append(formatter.format_record(Record(tags.ASSISTANT_REPL_IN, result["code"], {"cell": attrs["cell"]})))
    if result["status"] != "skipped":
        parts.append(formatter.format_record(Record(tags.ASSISTANT_REPL_OUT, output or "(nothing was printed)", attrs)))
    return "\n".join(parts)

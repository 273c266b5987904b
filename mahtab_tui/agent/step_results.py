"""What came of a step's code, as the model gets it."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.agent.host import UNRUN_STATUSES, ExecutionResult
from mahtab_tui.bus.escaping import escape_controls, escape_output
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.record_xml import format_attributes, to_xml
from mahtab_tui.bus.records import AssistantReplIn, AssistantReplOut
from mahtab_tui.llm import prompts
from mahtab_tui.llm.prompt_sections import escape_sections

MIN_OUTPUT_TOKENS = 2_000
"""Longest output for a model that reads `SMALL_WINDOW_TOKENS`."""
MAX_OUTPUT_TOKENS = 8_000
"""Longest output for a model that reads `LARGE_WINDOW_TOKENS` or more."""
SMALL_WINDOW_TOKENS = 8_000
LARGE_WINDOW_TOKENS = 100_000
CHARS_PER_TOKEN = 4


def max_output_chars(window_tokens: int) -> int:
    """Return how many characters of a block's output a model gets, by what it can read."""
    if window_tokens < SMALL_WINDOW_TOKENS:
        # A quarter of the window, as at the limit.
        return window_tokens // 4 * CHARS_PER_TOKEN
    share = (window_tokens - SMALL_WINDOW_TOKENS) / (LARGE_WINDOW_TOKENS - SMALL_WINDOW_TOKENS)
    additional_tokens = (MAX_OUTPUT_TOKENS - MIN_OUTPUT_TOKENS) * min(1.0, share)
    return (MIN_OUTPUT_TOKENS + int(additional_tokens)) * CHARS_PER_TOKEN


def render_results(
    results: Sequence[ExecutionResult], max_chars: int, *, with_code: bool = False
) -> str:
    """Format outputs as escaped records.

    Args:
        results: What came of the blocks.
        max_chars: Characters of each output and each code; the middle of a longer one is left out.
        with_code: Whether to include all code, not only code that the user edited.
    """
    return "\n".join(_render_result(result, with_code, max_chars) for result in results)


def _render_result(result: ExecutionResult, with_code: bool, max_chars: int) -> str:
    """Format what came of one block: the note about it, its code, and its output."""
    note = result["note"]
    has_run = result["status"] not in UNRUN_STATUSES
    texts = [note] if note else []
    # A note about code that ran says that the user edited it.
    if with_code or (has_run and note):
        code = shorten(escape_controls(result["code"]), max_chars)
        element = to_xml(AssistantReplIn(code, cell=result["cell"]))
        texts.append(escape_sections(element))
    if has_run:
        texts.append(escape_sections(_output_element(result, max_chars)))
    return "\n".join(texts)


def _output_element(result: ExecutionResult, max_chars: int) -> str:
    """Format an output, with the variables that changed and the ids of the figures that were
    drawn."""
    cell = result["cell"]
    output = escape_output(result["output"], rewritten=result.get("rewritten", False)).rstrip()
    if len(output) > max_chars:
        output = shorten(output, max_chars, prompts.see_whole_output(cell))
    output = output or "(nothing was printed)"
    variables = result.get("variables")
    if variables:
        output = f"{output}\n\n{escape_controls(variables)}"
    for doubt in result.get("doubts", ()):
        output = f"{output}\nNote: {escape_controls(doubt)}"

    element = to_xml(AssistantReplOut(output, cell=cell, status=result["status"]))
    picture_ids = result.get("pictures")
    if picture_ids:
        attributes = format_attributes({"pictures": " ".join(picture_ids)})
        element = element.replace(">", f"{attributes}>", 1)
    return element

"""Asks the user at the editor what the session waits for, and passes the answer on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mahtab_tui.acp.cell_card import CellCard
from mahtab_tui.acp.protocol import ApprovalChoice, Editor, tool_call
from mahtab_tui.acp.updates import Request, UpdateWriter
from mahtab_tui.bus import records
from mahtab_tui.bus.change_words import format_changes
from mahtab_tui.bus.records import Decision
from mahtab_tui.session import Session

_RUN = ApprovalChoice("run", "Run", "allow_once")
_RUN_ALL = ApprovalChoice("all", "Run all from now on", "allow_always")
_SKIP = ApprovalChoice("skip", "Skip", "reject_once")
_KEEP = ApprovalChoice("keep", "Keep the changes", "allow_once")
_UNDO = ApprovalChoice("undo", "Undo them", "reject_once")

_DECISIONS: Mapping[str, Decision] = {
    "run": Decision("run"),
    "all": Decision("all"),
    "skip": Decision("skip"),
    "keep": Decision("keep"),
    "undo": Decision("undo"),
}
"""By the IDs of choices."""
_STOP = Decision("stop")


async def ask_user(
    editor: Editor,
    session_id: str,
    session: Session,
    writer: UpdateWriter,
    request: Request,
) -> None:
    """Ask the user, and answer the session.

    Args:
        editor: The editor.
        session_id: The session's ID there.
        session: The session.
        writer: Knows the tool calls of cells.
        request: What the session waits for.
    """
    if isinstance(request, records.Input):
        # Editors show what is typed into a form, and may keep it.
        line: str | None = None
        if editor.has_forms and not request.password:
            prompt = request.text.strip() or "The code waits for a line of input."
            line = await editor.ask_for_line(session_id, prompt)
        session.host.inputs.answer(request.request, line)
        return

    match request:
        case records.Approval():
            choices = [_RUN, _SKIP] if request.is_code is False else [_RUN, _RUN_ALL, _SKIP]
            # The tool call of code shows how it goes on.
            choice = await editor.choose(session_id, writer.card(request), choices)
        case records.Review():
            card = CellCard(f"review-{request.request}", title="Keep the changes?", kind="other")
            card.notes.append(format_changes(request.changes))
            choice = await decide(editor, session_id, card, [_KEEP, _UNDO])
        case records.SearchFanOut():
            title = fan_out_question(request)
            card = CellCard(f"calls-{request.request}", title=title, kind="other")
            choice = await decide(editor, session_id, card, [_RUN, _SKIP])

    decision = _DECISIONS.get(choice, _STOP)
    if isinstance(request, records.SearchFanOut):
        session.searches.answer(request.request, decision.action == "run")
    else:
        session.approvals.answer(request.request, decision)


def fan_out_question(request: records.SearchFanOut) -> str:
    """Return what the user is asked about calls that a search wants to make."""
    # The code of a search may make calls in a loop, of which nobody knows the end.
    calls = "many" if request.calls is None else f"{request.calls:,}"
    more = " more" if request.made else ""
    return f"Make {calls}{more} calls of a model?"


async def decide(
    editor: Editor, session_id: str, card: CellCard, choices: Sequence[ApprovalChoice]
) -> str:
    """Return the ID of what the user chooses; empty for nothing.

    Args:
        editor: The editor.
        session_id: The session's ID there.
        card: What the user decides about, a tool call only for this question.
        choices: The choices.
    """
    await editor.show(session_id, tool_call(card))
    choice = ""
    try:
        choice = await editor.choose(session_id, card, choices)
    finally:
        card.finish(bool(choice))
        await editor.show(session_id, tool_call(card))
    return choice

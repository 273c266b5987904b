"""Asks the user at the editor what the session waits for, and passes the answer on."""

from __future__ import annotations

from collections.abc import Mapping

from acp import Client, RequestError, schema

from mahtab_tui.acp.cell_card import CellCard
from mahtab_tui.acp.updates import Request, UpdateWriter
from mahtab_tui.bus import records
from mahtab_tui.bus.change_words import format_changes
from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.bus.records import Decision
from mahtab_tui.session import Session

ANSWER_FIELD = "answer"
"""The only field of a form."""

_RUN = schema.PermissionOption(option_id="run", name="Run", kind="allow_once")
_RUN_ALL = schema.PermissionOption(option_id="all", name="Run all from now on", kind="allow_always")
_SKIP = schema.PermissionOption(option_id="skip", name="Skip", kind="reject_once")
_KEEP = schema.PermissionOption(option_id="keep", name="Keep the changes", kind="allow_once")
_UNDO = schema.PermissionOption(option_id="undo", name="Undo them", kind="reject_once")

_DECISIONS: Mapping[str, Decision] = {
    "run": Decision("run"),
    "all": Decision("all"),
    "skip": Decision("skip"),
    "keep": Decision("keep"),
    "undo": Decision("undo"),
}
"""By the ids of options."""
_STOP = Decision("stop")


async def ask_user(
    client: Client,
    session_id: str,
    session: Session,
    writer: UpdateWriter,
    request: Request,
    has_forms: bool,
) -> None:
    """Ask the user, and answer the session.

    Args:
        client: The editor.
        session_id: The session's id there.
        session: The session.
        writer: Knows the tool calls of cells.
        request: What the session waits for.
        has_forms: Whether the editor can ask for a line of text.
    """
    if isinstance(request, records.Input):
        # Editors show what is typed into a form, and may keep it.
        can_ask = has_forms and not request.password
        line = await _ask_for_line(client, session_id, request) if can_ask else None
        session.host.inputs.answer(request.request, line)
        return

    match request:
        case records.Approval():
            card = writer.card(request)
            options = [_RUN, _SKIP] if request.is_code is False else [_RUN, _RUN_ALL, _SKIP]
        case records.Review():
            card = CellCard(f"review-{request.request}", title="Keep the changes?", kind="other")
            card.notes.append(format_changes(request.changes))
            options = [_KEEP, _UNDO]
        case records.SearchFanOut():
            title = fan_out_question(request)
            card = CellCard(f"calls-{request.request}", title=title, kind="other")
            options = [_RUN, _SKIP]

    # Those of code show how it goes on.
    is_own_card = not isinstance(request, records.Approval)
    option = await choose(client, session_id, card, options, shows_card=is_own_card)
    decision = _DECISIONS.get(option, _STOP)
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


async def choose(
    client: Client,
    session_id: str,
    card: CellCard,
    options: list[schema.PermissionOption],
    *,
    shows_card: bool = True,
) -> str:
    """Return the id of the option that the user chooses; empty if the user chooses none, the editor
    is gone, or its answer makes no sense.

    Args:
        client: The editor.
        session_id: The session's id there.
        card: What the user decides about.
        options: The choices.
        shows_card: Whether the card is a tool call only for this question.
    """
    try:
        if shows_card:
            await client.session_update(session_id, card.update())
        response = await client.request_permission(session_id, card.question(), options)
        if shows_card:
            card.status = "completed"
            await client.session_update(session_id, card.update())
    except (RequestError, ConnectionError, ValueError):
        return ""
    if isinstance(response.outcome, schema.DeniedOutcome):
        return ""
    return response.outcome.option_id


async def _ask_for_line(client: Client, session_id: str, request: records.Input) -> str | None:
    """Return what the user types; None if there is no answer."""
    prompt = escape_controls(request.text).strip() or "The code waits for a line of input."
    field = schema.ElicitationStringPropertySchema(type="string", title=prompt)
    form = schema.ElicitationFormSessionMode(
        session_id=session_id,
        requested_schema=schema.ElicitationSchema(
            type="object", properties={ANSWER_FIELD: field}, required=[ANSWER_FIELD]
        ),
    )
    try:
        response = await client.create_elicitation(prompt, form)
    except (RequestError, ConnectionError, ValueError):
        return None
    if not isinstance(response, schema.AcceptElicitationResponse) or not response.content:
        return None
    return str(response.content.get(ANSWER_FIELD, ""))

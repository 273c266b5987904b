"""Changes of the model's last cell, in the place of all variables."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.inspector import InspectorScreen
from tests import tags
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.story import ScriptedSession, change, drawn
from tests.tui.test_namespace_pane import SIZE, MakeApp, changes, focused, lines, pane_of


def ended(cell: int, party: str = "claude", **attrs: Any) -> Record:
    """A cell of the model's has ended."""
    return made(
        tags.ASSISTANT_REPL_OUT,
        "",
        {"cell": cell, "party": party, "status": "ok", "duration": 0.1, "kinds": [], **attrs},
        1.0,
    )


BEFORE = changes(
    1,
    change("df", "DataFrame", "100 × 4"),
    change("x", "int", "3"),
    change("old", "list", "2 items"),
    change("same", "Thing", ""),
)
CHANGED = changes(
    2,
    change("df", "DataFrame", "98 × 5", "rebound"),
    change("x", "str", "'three'", "rebound"),
    {"name": "old", "change": "deleted"},
    change("same", "Thing", "", "perhaps"),
    {**change("_new", "function", "(a)"), "kind": "function"},
    party="claude",
)


async def emit_records(pilot: Pilot[int], *records: Record) -> None:
    app = pilot.app
    assert isinstance(app, MahtabApp)
    assert isinstance(app.session, ScriptedSession)
    for record in records:
        app.session.log_record(record, 1.0)
    await drawn(pilot)


async def test_key_shows_added_deleted_and_rebound_names_with_old_values(
    make_app: MakeApp,
) -> None:
    async with make_app(BEFORE, ended(2), CHANGED).run_test(size=SIZE) as pilot:
        await drawn(pilot)
        pane_of(pilot).styles.width = 64
        await pilot.press("alt+d")
        title, _, *rows = lines(pilot)
        assert title == "CHANGES  ·  claude 2"
        assert [" ".join(row.split()) for row in rows] == [
            "~ df 100 × 4 → 98 × 5 DataFrame ◈ 2",
            "~ x 3 → 'three' int → str ◈ 2",
            "− old 2 items list ◈ 2",
            "? same Thing ◈ 2",
            "+ _new (a) function ◈ 2",
        ]
        await pilot.press("alt+d")
        assert lines(pilot)[0].startswith("NAMESPACE  3")


async def test_changes_follow_the_model_and_not_the_user(make_app: MakeApp) -> None:
    async with make_app(BEFORE, ended(2), CHANGED).run_test(size=SIZE) as pilot:
        await drawn(pilot)
        await pilot.press("alt+d")
        await emit_records(pilot, changes(3, change("mine", "int", "1")))
        assert lines(pilot)[0] == "CHANGES  ·  claude 2"
        await emit_records(pilot, ended(4), changes(4, change("z", "int", "1"), party="claude"))
        assert [line.split()[:2] for line in lines(pilot)[2:]] == [["+", "z"]]
        await emit_records(
            pilot,
            ended(5),
            made(
                tags.ASSISTANT_REPL_OUT, "late", {"cell": 9, "party": "claude", "late": True}, 1.0
            ),
        )
        assert lines(pilot)[1] == "claude 5 changed no variables."


async def test_empty_changes_view_explains_its_purpose(
    make_app: MakeApp,
) -> None:
    async with make_app(BEFORE).run_test(size=SIZE) as pilot:
        await drawn(pilot)
        await pilot.press("alt+d")
        assert lines(pilot)[0] == "CHANGES"
        assert (
            " ".join(lines(pilot)[1:])
            == "Shows what the model's last cell added, changed and deleted."
        )
        await emit_records(pilot, ended(2), CHANGED)
        assert len(lines(pilot)) == 7
        await emit_records(pilot, changes(3, fresh=True))
        assert lines(pilot)[1].startswith("Shows what the model's last cell")


async def test_keys_act_on_existing_names_and_letters_filter(make_app: MakeApp) -> None:
    async with make_app(BEFORE, ended(2), CHANGED).run_test(size=SIZE) as pilot:
        await focused(pilot)
        await pilot.press("alt+d", "ctrl+f", *"old")
        assert [line.split()[:2] for line in lines(pilot)[2:]] == [["−", "old"]]
        await pilot.press("enter", "space", "delete", "ctrl+n")
        assert len(pilot.app.screen_stack) == 1
        await pilot.press("escape", "home", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, InspectorScreen))


async def test_hidden_pane_opens_with_the_changes(make_app: MakeApp) -> None:
    async with make_app(BEFORE).run_test(size=(60, 24)) as pilot:
        await drawn(pilot)
        assert not pane_of(pilot).region
        await pilot.press("alt+d")
        await until(pilot, lambda: bool(pane_of(pilot).region))
        assert lines(pilot)[0] == "CHANGES"

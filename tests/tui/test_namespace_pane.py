"""The namespace pane: what it lists, filters and opens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from textual.events import Key
from textual.pilot import Pilot

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.inspector.screen import InspectorScreen
from mahtab_tui.tui.namespace import variables
from mahtab_tui.tui.namespace.pane import NamespacePane
from tests import tags
from tests.records import made
from tests.tui.editor_app import until, wait_for_close, wait_for_screen
from tests.tui.scripted_session import MakeApp, change, drawn, log, notices, showing

SIZE = (120, 40)


def changes(cell: int, *rows: dict[str, Any], party: str = "you", fresh: bool = False) -> Record:
    about = {"cell": cell, "party": party, "fresh": fresh, "changes": list(rows)}
    return made(tags.NAMESPACE, "", about, 1.0)


ROWS = (
    changes(1, change("b", "int", "42"), change("pd", "module", "", kind="module")),
    changes(2, change("a", "str", "'words'"), change("_private", "int", "1")),
    changes(
        3,
        change("data", "list", "3 items"),
        change("f", "function", "(x)", kind="function"),
        party="claude",
    ),
)


def pane_of(pilot: Pilot[int]) -> NamespacePane:
    return pilot.app.query_one(NamespacePane)


def lines(pilot: Pilot[int]) -> list[str]:
    pane = pane_of(pilot)
    return [text for y in range(pane.size.height) if (text := pane.render_line(y).text.strip())]


def names(pilot: Pilot[int]) -> list[str]:
    return [line.split()[0] for line in lines(pilot)[2:]]


async def focused(pilot: Pilot[int]) -> None:
    await drawn(pilot)
    pane_of(pilot).focus()
    await until(pilot, lambda: pane_of(pilot).has_focus)


async def test_very_many_changes_are_all_shown_in_the_end(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variables, "MAX_FOLDED_CHANGES", 2)
    async with make_app().run_test(size=SIZE) as pilot:
        await focused(pilot)
        many = [change(f"v{number}", "int", "1") for number in range(7)]
        await log(pilot, changes(1, *many), changes(2, change("v3", "int", "2")), when=1.0)
        await until(pilot, lambda: len(lines(pilot)) == 2 + len(many))
        await until(pilot, lambda: names(pilot)[0] == "v3")
        assert names(pilot) == ["v3", "v6", "v5", "v4", "v2", "v1", "v0"]


async def opened_name(pilot: Pilot[int]) -> str:
    screen = await wait_for_screen(pilot, InspectorScreen)
    (name,) = screen.labels
    return name


@pytest.fixture
def app(make_app: MakeApp) -> MahtabApp:
    return make_app(*ROWS)


@pytest.fixture
async def pilot(app: MahtabApp) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=SIZE) as pilot:
        await focused(pilot)
        yield pilot


async def test_row_shows_name_value_type_and_author_or_a_question_mark(make_app: MakeApp) -> None:
    app = make_app(*ROWS, changes(4, change("b", "int", "42", "perhaps")))
    async with showing(app, SIZE) as pilot:
        title, heading, *rows = lines(pilot)
        assert title.startswith("NAMESPACE  3")
        assert heading.split() == ["name", "value", "type", "by"]
        assert [row.split() for row in rows] == [
            ["data", "3", "items", "list", "◈", "3"],
            ["a", "'words'", "str", "❯", "2"],
            ["b", "42", "int", "❯", "1?"],
        ]


@pytest.mark.parametrize("kind", ["DataFrame", "DatetimeIndex", "defaultdict"])
async def test_types_shrink_before_values_and_names_have_20_columns(
    make_app: MakeApp, kind: str
) -> None:
    app = make_app(changes(12, change("price_per_region_and_day", kind, "10000 × 12345")))
    async with showing(app, (120, 35)) as pilot:
        assert lines(pilot)[2].split()[:3] == ["price_per_region_an…", "10,000", "×"]
        await pilot.resize_terminal(200, 35)
        await until(pilot, lambda: kind in lines(pilot)[2])
        assert "10,000 × 12,345" in lines(pilot)[2]


async def test_deleted_names_vanish_and_a_fresh_kernel_empties_the_list(make_app: MakeApp) -> None:
    app = make_app(*ROWS, changes(4, {"name": "a", "change": "deleted"}))
    async with showing(app, SIZE) as pilot:
        assert names(pilot) == ["data", "b"]
        await log(pilot, changes(5, fresh=True), when=1.0)
        assert "Variables appear here" in lines(pilot)[1]


async def test_sorted_by_recency_name_and_type_with_hidden_names_on_request(
    pilot: Pilot[int],
) -> None:
    assert names(pilot) == ["data", "a", "b"]
    await pilot.press("ctrl+s")
    assert names(pilot) == ["a", "b", "data"]
    assert "by name" in lines(pilot)[0]
    await pilot.press("ctrl+s")
    assert names(pilot) == ["b", "data", "a"]
    await pilot.click(NamespacePane, offset=(4, 1))
    assert names(pilot) == ["data", "a", "b"]
    assert "3 hidden" in lines(pilot)[0]
    await pilot.press("ctrl+t")
    assert names(pilot) == ["f", "data", "_private", "a", "pd", "b"]
    assert "hidden" not in lines(pilot)[0]
    await pilot.press("ctrl+t")
    assert names(pilot) == ["data", "a", "b"]


async def test_exactly_typed_name_comes_first(make_app: MakeApp) -> None:
    app = make_app(
        changes(1, change("df", "int", "1")),
        changes(2, change("pldf", "int", "1"), change("df_old", "int", "1")),
    )
    async with showing(app, SIZE) as pilot:
        pane_of(pilot).focus()
        await pilot.press("ctrl+f", *"d")
        assert names(pilot) == ["df_old", "pldf", "df"]
        await pilot.press("F")
        assert names(pilot) == ["df", "df_old", "pldf"]


async def test_typing_filters_and_backspace_widens_and_escape_ends(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    await pilot.press("ctrl+f", "d", "A")
    assert names(pilot) == ["data"]
    assert "/ dA" in lines(pilot)[0]
    await pilot.press("backspace", "x")
    assert any("No name contains this" in line for line in lines(pilot))
    await pilot.press("escape")
    assert names(pilot) == ["data", "a", "b"]
    assert app.editor.is_empty


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "keys",
    [("enter",), ("ctrl+f", "b", "enter"), ("down", "down", "enter")],
    ids="first filtered third".split(),
)
async def test_enter_opens_the_chosen_variable(keys: tuple[str, ...], pilot: Pilot[int]) -> None:
    await pilot.press(*keys)
    assert await opened_name(pilot) == ("data" if len(keys) == 1 else "b")


@pytest.mark.thorough
async def test_ten_thousand_rows_can_be_walked_by_keys(make_app: MakeApp) -> None:
    added_variables = (change(f"v{number:05}", "int", str(number)) for number in range(10_000))
    app = make_app(changes(1, *added_variables))
    async with app.run_test(size=SIZE) as pilot:
        await focused(pilot)
        await pilot.press("ctrl+s", "end")
        await pilot.pause()
        assert names(pilot)[-1] == "v09999"
        await pilot.press("home", "pagedown", "down")
        await pilot.pause()
        assert names(pilot)[0] == "v00000" or pane_of(pilot).cursor > 1
        await pilot.press("ctrl+f", *"v00777", "enter")
        assert await opened_name(pilot) == "v00777"


async def test_external_names_and_values_are_plain_text(make_app: MakeApp) -> None:
    hostile = "[@click=app.quit]q[/] [/x]\x1b]52;c;aGk=\x07\u202e"
    async with showing(make_app(changes(1, change("x", hostile, hostile))), SIZE) as pilot:
        row = lines(pilot)[2]
        assert "[@click" in row
        assert not {"\x1b", "\x07", "\u202e"} & set(row)


async def test_watched_variable_stays_on_top_and_can_be_filtered(pilot: Pilot[int]) -> None:
    await pilot.press("down", "down", "space")
    assert names(pilot)[0].startswith("●")
    assert "● b" in lines(pilot)[2]
    assert pane_of(pilot).cursor == 0
    await log(pilot, changes(5, change("newer", "str", "'new'")), when=1.0)
    assert "● b" in lines(pilot)[2]
    await pilot.press("ctrl+f", *"newer")
    assert "● b" in lines(pilot)[2]
    assert "newer" in lines(pilot)[3]
    assert pane_of(pilot).cursor == 1
    await pilot.press("escape", "home", "space")
    assert "● b" not in "\n".join(lines(pilot))


@pytest.mark.parametrize(
    ("keys", "cell"),
    [
        ("ctrl+n end _ 2 enter", "data_2 = data; del data"),
        ("ctrl+n home 2 enter", None),
        ("ctrl+n home shift+end a enter", None),
        ("ctrl+n home shift+end ª enter", None),
        ("delete y", "del data"),
        ("delete n", None),
    ],
    ids=["rename", "no name", "in use", "in use once normalized", "delete", "cancel"],
)
async def test_rename_and_delete_run_as_cells_of_the_user(
    monkeypatch: pytest.MonkeyPatch, keys: str, cell: str | None, app: MahtabApp, pilot: Pilot[int]
) -> None:
    run: list[str] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text: run.append(text))
    opening, *later_keys = keys.split()
    await pilot.press(opening)
    await until(pilot, lambda: len(app.screen_stack) == 2)
    await pilot.press(*later_keys)
    await wait_for_close(pilot)
    assert run == ([] if cell is None else [cell])


async def test_invalid_name_is_drawn_on_one_line_and_handled_correctly(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "a\nb\tc\x1b]0;x\x07; print(1)"
    app = make_app(changes(1, change(name, "int", "1"), change("class", "int", "2")))
    async with app.run_test(size=SIZE) as pilot:
        await focused(pilot)
        assert names(pilot) == ["class", "a"]
        strips = pilot.app.screen._compositor.render_strips()
        assert not {"\n", "\t", "\x1b"} & set("".join(strip.text for strip in strips))
        run: list[str] = []
        monkeypatch.setattr(app.session, "submit", lambda mode, text: run.append(text))
        for keys in (("end", "delete"), ("home", "delete")):
            await pilot.press(*keys)
            await until(pilot, lambda: len(app.screen_stack) == 2)
            await pilot.press("y")
            await wait_for_close(pilot)
        assert run == [f"del globals()[{name!r}]", "del globals()['class']"]
        await pilot.press("end", "enter")
        assert await opened_name(pilot) == name


AWAY = (
    changes(
        0,
        change("orders", "DataFrame", "10,000 × 5", "restoring"),
        change("model", "Pipeline", "", "restoring"),
        party="restoring",
    ),
    changes(
        0,
        change("sock", "socket", "a connection cannot be saved", "absent"),
        change("big", "ndarray", "1,200 MB > 1,024 MB of keep_namespace_mb", "absent"),
        party="not kept",
    ),
    changes(
        0, change("items", "list", "3 items"), change("total", "float", "1.5"), party="restored"
    ),
    records.Restore(
        "2 variables restored, 2 not: sock (a connection cannot be saved), big (1,200 MB > 1,024 MB of keep_namespace_mb).",
        time=1.0,
    ),
)


@pytest.mark.parametrize("size", [(80, 24), (120, 35)], ids=["80x24", "120x35"])
def test_restored_variables_snapshot(
    snap_compare: Callable[..., bool], make_app: MakeApp, size: tuple[int, int]
) -> None:
    async def ready(pilot: Pilot[int]) -> None:
        await drawn(pilot)
        if size[0] < 100:
            await pilot.press("f3")
            await drawn(pilot)

    assert snap_compare(make_app(*AWAY), terminal_size=size, run_before=ready)


async def test_missing_variable_cannot_be_opened_until_it_exists(make_app: MakeApp) -> None:
    async with make_app(*AWAY).run_test(size=SIZE) as pilot:
        await focused(pilot)
        pane = pane_of(pilot)
        (row,) = [row for row in lines(pilot)[2:] if row.startswith("sock")]
        assert row.split()[-2:] == ["not", "kept"]
        three = ("sock", "orders", "items")
        assert [name in pane.variables for name in three] == [False, False, True]
        orders = change("orders", "DataFrame", "10,000 × 5")
        sock = changes(7, change("sock", "int", "1"))
        await log(pilot, changes(0, orders, party="restored"), sock, when=1.0)
        assert [name in pane.variables for name in three] == [True, True, True]
        assert lines(pilot)[2].split() == ["sock", "1", "int", "❯", "7"]
        assert pane.variables.created_count == 1


async def test_enter_on_an_unsaved_variable_drafts_the_cells_that_made_it(
    make_app: MakeApp,
) -> None:
    made_sock = records.UserReplIn("sock = socket.socket()", cell=2, party="you", time=1.0)
    app = make_app(made_sock, changes(2, change("sock", "socket", "")), *AWAY)
    async with app.run_test(size=SIZE) as pilot:
        await focused(pilot)
        pane = pane_of(pilot)
        editor = app.panes.editor

        async def enter_on(name: str) -> list[str]:
            pane.focus()
            await until(pilot, lambda: pane.has_focus)
            pane.go_to(next(n for n, line in enumerate(lines(pilot)[2:]) if line.startswith(name)))
            app.clear_notifications()
            await pilot.press("enter")
            await pilot.pause()
            return notices(pilot)

        editor.text = "draft"
        assert await enter_on("sock") == [
            "sock was not restored: a connection cannot be saved. Clear the input first; then Enter here puts the cells that made it there."
        ]
        assert editor.text == "draft"
        editor.text = ""
        assert await enter_on("sock") == [
            "sock was not restored: a connection cannot be saved. The input has the cells that made it: read them, then run them."
        ]
        assert (editor.text, editor.mode) == ("# cell 2\nsock = socket.socket()", "python")
        assert app.session.inbox.idle
        editor.text = ""
        assert await enter_on("big") == [
            "big was not restored: 1,200 MB > 1,024 MB of keep_namespace_mb. No cell of this session made it."
        ]


async def test_private_variable_is_marked_and_keeps_its_mark_when_renamed(
    monkeypatch: pytest.MonkeyPatch, app: MahtabApp, pilot: Pilot[int]
) -> None:
    monkeypatch.setattr(app.session, "submit", lambda mode, text: 0)
    app.post_message(Key("alt+p", "p"))  # as a terminal sends it: with the letter
    await until(pilot, lambda: lines(pilot)[2].startswith("⊘ data "))
    assert pane_of(pilot).has_focus
    assert app.session.private.names == ["data"]
    await pilot.press("ctrl+n")
    await until(pilot, lambda: len(app.screen_stack) == 2)
    await pilot.press("end", "_", "2", "enter")
    await until(pilot, lambda: app.session.private.names == ["data", "data_2"])
    await pilot.press("alt+p")
    await until(pilot, lambda: lines(pilot)[2].startswith("data "))
    assert app.session.private.names == ["data_2"]

"""Entries that the person takes out of the model's conversation, in the transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.rows.row import BAR
from tests import tags
from tests.tui.test_transcript_keys import KeysApp, conversation, press
from tests.tui.test_transcript_snapshots import SESSION
from tests.tui.test_transcript_snapshots import record as past_record
from tests.tui.transcript_app import SIZE, NotedPort, record

HIDDEN_NOTE = "hidden from the model"


class HidingApp(KeysApp):
    """Tells the pane what it asks for, as the bus would."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        super().__init__(records)
        self.hidden: list[tuple[str, bool]] = []
        self.port = HidingPort(self)


class HidingPort(NotedPort):
    """Tells the pane so, as the bus would."""

    def __init__(self, app: HidingApp) -> None:
        super().__init__()
        self._app = app

    def hide(self, entry: str, hidden: bool) -> None:
        self._app.hidden.append((entry, hidden))
        self._app.pane.fold([record(tags.HIDE, entry=entry, hidden=hidden)])


def lines(app: KeysApp) -> list[str]:
    return [app.pane.render_line(y).text.rstrip() for y in range(1, app.pane.size.height)]


async def test_a_key_hides_the_marked_entry_and_shows_it_again() -> None:
    async with HidingApp(conversation()).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, HidingApp)
        app.pane.focus()
        await press(pilot, *["up"] * 4)
        before = lines(app)
        await press(pilot, "enter", "m")
        assert app.hidden == [("question 1", True)]
        (hidden_line,) = [line for line in lines(app) if HIDDEN_NOTE in line]
        assert "what is x?" in hidden_line
        await press(pilot, "enter", "m")
        assert app.hidden[-1] == ("question 1", False)
        assert lines(app) == before


async def test_texts_of_one_answer_are_hidden_together_and_its_code_alone() -> None:
    async with HidingApp(conversation()).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, HidingApp)
        app.pane.focus()
        await press(pilot, "enter", "m", "up", "enter", "m")
        assert app.hidden == [("code 1.0.1", True), ("answer 1.0", True)]
        assert sum(HIDDEN_NOTE in line for line in lines(app)) == 3


async def test_replaced_entry_stays_hidden_with_a_note() -> None:
    replaced = record(tags.REPLACE, "The namespace stays as it is.", entry="question 1")
    async with HidingApp([*conversation(), replaced]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, HidingApp)
        app.pane.focus()
        assert any("The namespace stays" in line for line in lines(app))
        assert sum(line.endswith("replaced") for line in lines(app)) == 5
        first = 1 + next(y for y, line in enumerate(lines(app)) if line.endswith("replaced"))
        bars = [
            segment.style
            for y in range(first, app.pane.size.height)
            for segment in app.pane.render_line(y)
            if segment.text == BAR
        ]
        assert len(bars) > 5
        assert all(bar is not None and bar.dim for bar in bars)
        await press(pilot, "enter", "m")
        assert app.calls == [("refused", "This entry was replaced, so the model does not see it.")]
        assert not app.hidden


def test_hidden_entries_are_dimmed(snap_compare: Callable[..., bool]) -> None:
    hidden = [
        past_record(tags.HIDE, entry=entry, hidden=True) for entry in ("cell 3", "answer 1.0")
    ]
    assert snap_compare(KeysApp([*SESSION, *hidden]), terminal_size=(80, 46))

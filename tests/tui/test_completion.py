"""Completion in the editor: as one types, on Tab, and while the kernel does not answer."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.requests import checked
from mahtab_tui.kernel.values import Completion, Completions
from mahtab_tui.tui.editor.completion import CompletionList, CompletionRequest
from mahtab_tui.worker.completion.complete import complete
from tests.tui.editor_app import SIZE, EditorApp, app_of, until, write

NAMESPACE = {
    "price": 3,
    "prices": [1, 2],
    "table": {"first": 1, "[bold]": 2, "日本語": 3, "日本人": 4},
    "unique_name": 1,
}

Compare = Callable[..., bool]


class Kernel:
    """Completes in `NAMESPACE`; can be made to wait, or to be busy."""

    def __init__(self) -> None:
        self.busy = False
        self.free = threading.Event()
        self.free.set()
        self.asked: list[str] = []
        self.pending = 0
        """Answers that say that there will soon be others."""

    def complete(self, code: str, cursor: int) -> Completions:
        self.asked.append(code)
        assert self.free.wait(30)
        if self.busy:
            raise KernelError("The kernel does not answer.")
        if self.pending:
            self.pending -= 1
            return Completions(cursor, (), 0, pending=True)
        return checked(Completions, complete(NAMESPACE, code, cursor))


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
async def pilot(home: Path, kernel: Kernel) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home, complete=kernel.complete)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.focused is app.area)
        yield pilot
        kernel.free.set()


def shown(pilot: Pilot[None]) -> CompletionList:
    return pilot.app.query_one(CompletionList)


async def opened(pilot: Pilot[None], first: str) -> None:
    """Wait until the list is open, with `first` on top."""
    await until(pilot, lambda: shown(pilot).is_open and shown(pilot).items[0].label == first)


async def test_list_opens_while_typing_and_tab_inserts_its_first_item(pilot: Pilot[None]) -> None:
    await write(pilot, "x = pri")
    await opened(pilot, "price")
    await pilot.press("tab")
    assert app_of(pilot).editor.text == "x = price"
    assert not shown(pilot).is_open


async def test_enter_runs_the_code_if_the_list_was_not_requested(pilot: Pilot[None]) -> None:
    await write(pilot, "pri")
    await opened(pilot, "price")
    await pilot.press("enter")
    assert app_of(pilot).actions == [("submitted", "python", "pri")]
    assert not shown(pilot).is_open


async def test_arrows_choose_and_enter_inserts(pilot: Pilot[None]) -> None:
    await write(pilot, "pri")
    await opened(pilot, "price")
    await pilot.press("down", "enter")
    assert app_of(pilot).editor.text == "prices"
    assert app_of(pilot).actions == []


@pytest.mark.parametrize("before", ["", "日本 "])
async def test_list_appears_under_the_start_of_the_completed_text(
    pilot: Pilot[None], before: str
) -> None:
    begin = app_of(pilot).area.cursor_screen_offset.x
    await write(pilot, f'"{before}日本" + table["日')
    await opened(pilot, "日本人")
    assert shown(pilot).region.x + 1 == begin + cell_len(f'"{before}日本" + table["')


async def test_tab_requests_and_inserts_a_single_match_at_once(pilot: Pilot[None]) -> None:
    await write(pilot, "u")
    await pilot.press("tab")
    await opened(pilot, "unique_name")
    await write(pilot, "niq")
    await pilot.press("escape", "tab")
    await until(pilot, lambda: app_of(pilot).editor.text == "unique_name")


async def test_tab_indents_at_the_start_of_a_line(pilot: Pilot[None], kernel: Kernel) -> None:
    await pilot.press("tab")
    assert app_of(pilot).editor.text == "    "
    assert kernel.asked == []


async def test_escape_closes_the_list_and_nothing_else(pilot: Pilot[None]) -> None:
    await write(pilot, "pri")
    await opened(pilot, "price")
    await pilot.press("escape")
    assert not shown(pilot).is_open
    assert (app_of(pilot).editor.text, app_of(pilot).actions) == ("pri", [])


@pytest.mark.parametrize("key", ["left", "home", "space"])
async def test_moving_elsewhere_closes_the_list(pilot: Pilot[None], key: str) -> None:
    await write(pilot, "pri")
    await opened(pilot, "price")
    await pilot.press(key)
    assert not shown(pilot).is_open


async def test_dict_keys_are_completed_in_the_second_line(pilot: Pilot[None]) -> None:
    await write(pilot, "x = 1")
    await pilot.press("ctrl+j")
    await write(pilot, "table['")
    await opened(pilot, "[bold]")
    await pilot.press("down", "tab")
    assert app_of(pilot).editor.text == "x = 1\ntable['first'"


async def test_typing_does_not_wait_and_a_stale_reply_is_dropped(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    kernel.free.clear()
    await write(pilot, "pri")
    await until(pilot, lambda: bool(kernel.asked))
    await write(pilot, "nt(table[")
    assert app_of(pilot).editor.text == "print(table["
    kernel.free.set()
    await opened(pilot, "'[bold]'")
    assert kernel.asked[0] == "pr"
    assert len(kernel.asked) <= 3


async def test_tab_before_the_reply_inserts_nothing_that_does_not_fit(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    await write(pilot, "tab")
    await opened(pilot, "table")
    kernel.free.clear()
    await write(pilot, "le.popi")
    assert not shown(pilot).is_open
    await pilot.press("tab")
    assert app_of(pilot).editor.text == "table.popi"
    kernel.free.set()
    await until(pilot, lambda: app_of(pilot).editor.text == "table.popitem")


async def test_list_waiting_for_its_reply_shows_only_fitting_items(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    await write(pilot, "pri")
    await opened(pilot, "price")
    kernel.free.clear()
    await write(pilot, "ces")
    assert [item.label for item in shown(pilot).items] == ["prices"]
    await pilot.press("tab")
    assert app_of(pilot).editor.text == "prices"


async def test_completions_of_a_starting_server_are_requested_again(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    kernel.pending = 3
    await write(pilot, "pri")
    await opened(pilot, "price")
    assert kernel.pending == 0


async def test_click_on_a_vanished_row_changes_nothing(pilot: Pilot[None], kernel: Kernel) -> None:
    await write(pilot, "pri")
    await opened(pilot, "price")
    gone = shown(pilot).items[1]
    await write(pilot, "ce(")
    app_of(pilot).area.completer.accept(gone)
    assert app_of(pilot).editor.text == "price("


async def test_last_list_of_a_busy_kernel_is_shown_as_stale(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    await write(pilot, "pri")
    await opened(pilot, "price")
    await pilot.press("escape")
    kernel.busy = True
    await write(pilot, "c")
    await opened(pilot, "price")
    assert [item.label for item in shown(pilot).items] == ["price", "prices"]
    foot = str(shown(pilot).render()).splitlines()[-1]
    assert foot.endswith("the kernel is busy")
    assert shown(pilot).size.width >= len(foot)
    await pilot.press("escape")
    await write(pilot, " + pri")
    await opened(pilot, "price")


async def test_questions_are_not_completed(pilot: Pilot[None], kernel: Kernel) -> None:
    await write(pilot, "`pri")
    await pilot.press("tab")
    assert kernel.asked == []


async def test_click_inserts_a_row(pilot: Pilot[None]) -> None:
    await write(pilot, "pri")
    await opened(pilot, "price")
    await pilot.pause()
    await pilot.click(CompletionList, offset=(3, 1))
    assert app_of(pilot).editor.text == "prices"


async def test_markup_and_controls_in_a_list_are_text(pilot: Pilot[None]) -> None:
    shown(pilot).open(
        (Completion("[red]a\x1b[2J", "a", "key", "[/x] \x07"),),
        0,
        app_of(pilot).area.cursor_screen_offset,
        requested=True,
        stale=False,
    )
    text = str(shown(pilot).render())
    assert "[red]a" in text
    assert "\x1b" not in text


def test_list_appears_above_the_line(snap_compare: Compare, home: Path, kernel: Kernel) -> None:
    app = EditorApp(home, complete=kernel.complete)

    async def before(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.focused is app.area)
        await write(pilot, "total = sum(pri")
        await opened(pilot, "price")
        await pilot.press("down")

    assert snap_compare(app, terminal_size=SIZE, run_before=before)


async def test_closed_string_requests_no_automatic_completion(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    await write(pilot, "'x' in (")
    assert kernel.asked[-1] != "'x' in ("
    await write(pilot, ")")
    assert kernel.asked[-1] != "'x' in ()"


async def test_reply_to_an_outdated_request_opens_nothing(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    await write(pilot, "pri")
    await opened(pilot, "price")
    await pilot.press("escape")
    late = CompletionRequest(0, "pri", 3, by_key=True, python=True)
    app_of(pilot).area.completer.handle_response(late, kernel.complete("pri", 3))
    await pilot.pause()
    assert not shown(pilot).is_open

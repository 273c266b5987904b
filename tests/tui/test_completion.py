"""Completion in the editor, and the card with a signature."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.messages import checked
from mahtab_tui.kernel.values import Completion, Completions, Explanation
from mahtab_tui.tui.editor.completion_list import CompletionList
from mahtab_tui.tui.editor.help_card import HelpCard
from mahtab_tui.worker.completion.complete import complete, explain_at
from tests.tui.editor_app import SIZE, EditorApp, HelpWith, actions, app_of, text_of, until, write

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
        """Number of replies that announce another."""

    def complete(self, code: str, cursor: int) -> Completions:
        self.asked.append(code)
        assert self.free.wait(30)
        if self.busy:
            raise KernelError("The kernel does not answer.")
        if self.pending:
            self.pending -= 1
            return Completions(cursor, (), 0, pending=True)
        return checked(Completions, complete(NAMESPACE, code, cursor))

    def explain(self, code: str, cursor: int) -> Explanation | None:
        self.asked.append(code)
        assert self.free.wait(30)
        if "dead" in code:
            raise KernelError("The kernel has ended.")
        explanation = explain_at({"mean": mean}, code, cursor)
        if not explanation:
            return None
        return Explanation(**{**explanation, "where": "/home/ada/stats.py:12"})


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
async def pilot(home: Path, kernel: Kernel) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home, input_help=HelpWith(kernel.complete, explain=kernel.explain))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.focused is app.area)
        yield pilot
        kernel.free.set()


def shown(pilot: Pilot[None]) -> CompletionList:
    return pilot.app.query_one(CompletionList)


async def opened(pilot: Pilot[None], first_label: str = "price") -> None:
    await until(pilot, lambda: shown(pilot).is_open and shown(pilot).items[0].label == first_label)


async def write_pri(pilot: Pilot[None]) -> None:
    await write(pilot, "pri")
    await opened(pilot)


async def test_list_opens_while_typing_and_tab_inserts_its_first_item(pilot: Pilot[None]) -> None:
    await write(pilot, "x = pri")
    await opened(pilot, "price")
    await pilot.press("tab")
    assert text_of(pilot) == "x = price"
    assert not shown(pilot).is_open


async def test_enter_runs_the_code_if_the_list_was_not_requested(pilot: Pilot[None]) -> None:
    await write_pri(pilot)
    await pilot.press("enter")
    assert actions(pilot) == [("submitted", "python", "pri")]
    assert not shown(pilot).is_open


async def test_arrows_choose_and_enter_inserts(pilot: Pilot[None]) -> None:
    await write_pri(pilot)
    await pilot.press("down", "enter")
    assert text_of(pilot) == "prices"
    assert actions(pilot) == []


async def test_tab_requests_and_inserts_a_single_match_at_once(pilot: Pilot[None]) -> None:
    await write(pilot, "u")
    await pilot.press("tab")
    await opened(pilot, "unique_name")
    await write(pilot, "niq")
    await pilot.press("escape", "tab")
    await until(pilot, lambda: text_of(pilot) == "unique_name")


async def test_tab_indents_at_the_start_of_a_line(pilot: Pilot[None], kernel: Kernel) -> None:
    await pilot.press("tab")
    assert text_of(pilot) == "    "
    assert kernel.asked == []


async def test_matches_within_a_name_are_listed_on_request_after_those_at_its_start(
    pilot: Pilot[None],
) -> None:
    await write_pri(pilot)
    labels = [item.label for item in shown(pilot).items]
    assert labels == ["price", "prices", "print"]
    await pilot.press("escape", "tab")
    await opened(pilot)
    labels = [item.label for item in shown(pilot).items]
    assert labels[:3] == ["price", "prices", "print"]
    assert "copyright" in labels


async def test_tab_inserts_the_only_name_that_starts_so(pilot: Pilot[None]) -> None:
    await write(pilot, "table.pop")
    await opened(pilot, "pop")
    await pilot.press("i", "escape", "tab")
    await until(pilot, lambda: text_of(pilot) == "table.popitem")


async def test_matches_within_a_name_are_listed_if_none_starts_so(pilot: Pilot[None]) -> None:
    await write(pilot, "nq_na")
    await opened(pilot, "unique_name")


async def test_typing_the_quote_that_completion_inserted_does_not_double_it(
    pilot: Pilot[None],
) -> None:
    await write(pilot, "table['fi")
    await opened(pilot, "first")
    await pilot.press("tab", *"'] + ''")
    assert text_of(pilot) == "table['first'] + ''"


async def test_typing_the_quote_behind_a_completion_goes_behind_it(pilot: Pilot[None]) -> None:
    await write(pilot, "table['']")
    await pilot.press("left", "left", "f", "i")
    await opened(pilot, "first")
    await pilot.press("tab", *"'x")
    assert text_of(pilot) == "table['first'x]"


@pytest.mark.parametrize("key", ["escape", "left", "home", "space"])
async def test_other_keys_close_the_list(pilot: Pilot[None], key: str) -> None:
    await write_pri(pilot)
    await pilot.press(key)
    assert not shown(pilot).is_open
    assert (text_of(pilot).rstrip(), actions(pilot)) == ("pri", [])


async def test_dict_keys_are_completed_in_the_second_line(pilot: Pilot[None]) -> None:
    await write(pilot, "x = 1")
    await pilot.press("ctrl+j")
    await write(pilot, "table['")
    await opened(pilot, "[bold]")
    await pilot.press("down", "tab")
    assert text_of(pilot) == "x = 1\ntable['first'"


async def test_typing_does_not_wait_and_a_stale_reply_is_dropped(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    kernel.free.clear()
    await write(pilot, "pri")
    await until(pilot, lambda: bool(kernel.asked))
    await write(pilot, "nt(table[")
    assert text_of(pilot) == "print(table["
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
    assert text_of(pilot) == "table.popi"
    kernel.free.set()
    await until(pilot, lambda: text_of(pilot) == "table.popitem")


async def test_list_waiting_for_its_reply_shows_only_fitting_items(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    await write_pri(pilot)
    kernel.free.clear()
    await write(pilot, "ces")
    assert [item.label for item in shown(pilot).items] == ["prices"]
    await pilot.press("tab")
    assert text_of(pilot) == "prices"


async def test_completions_of_a_starting_server_are_requested_again(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    kernel.pending = 3
    await write_pri(pilot)
    assert kernel.pending == 0


async def test_list_closes_when_the_kernel_does_not_answer(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    await write_pri(pilot)
    kernel.busy = True
    await write(pilot, "c")
    await until(pilot, lambda: not shown(pilot).is_open)


async def test_files_at_the_start_of_the_code_are_offered_only_on_request(home: Path) -> None:
    files = Completions(0, (Completion("a/b.txt", "a/b.txt", "file", ""),), 0)
    app = EditorApp(home, input_help=HelpWith(lambda code, cursor: files))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.focused is app.area)
        await write(pilot, "a/")
        fetcher = app.area.completer._fetcher
        await until(pilot, lambda: not fetcher._running_counts["completion"])
        await pilot.pause()
        assert not shown(pilot).is_open
        await pilot.press("tab")
        await until(pilot, lambda: text_of(pilot) == "a/b.txt")


async def test_questions_are_not_completed(pilot: Pilot[None], kernel: Kernel) -> None:
    await write(pilot, "`pri")
    await pilot.press("tab")
    assert kernel.asked == []


async def test_markup_and_controls_in_a_list_are_text(pilot: Pilot[None]) -> None:
    shown(pilot).open(
        (Completion("[red]a\x1b[2J", "a", "key", "[/x] \x07"),),
        0,
        app_of(pilot).area.cursor_screen_offset,
        is_requested=True,
    )
    text = str(shown(pilot).render())
    assert "[red]a" in text
    assert "\x1b" not in text


def test_list_appears_above_the_line(snap_compare: Compare, home: Path, kernel: Kernel) -> None:
    app = EditorApp(home, input_help=HelpWith(kernel.complete))

    async def before(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.focused is app.area)
        await write(pilot, "total = sum(pri")
        await opened(pilot, "price")
        await pilot.press("down")

    assert snap_compare(app, terminal_size=SIZE, run_before=before)


async def test_completions_for_a_former_text_open_nothing(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    await write_pri(pilot)
    kernel.free.clear()
    await write(pilot, "c")
    await until(pilot, lambda: kernel.asked[-1] == "pric")
    await pilot.press("escape")
    kernel.free.set()
    fetcher = app_of(pilot).area.completer._fetcher
    await until(pilot, lambda: not fetcher._running_counts["completion"])
    await pilot.pause()
    assert not shown(pilot).is_open


# The card with signature and docstring of the call under the cursor.


def mean(
    values: list[float], /, weights: list[float] | None = None, *, robust: bool = False
) -> float:
    """The mean of [bold]values[/bold].

    Weighted, if there are weights.
    """
    return 0.0


def card_of(pilot: Pilot[None]) -> HelpCard:
    return pilot.app.query_one(HelpCard)


async def explained(pilot: Pilot[None], code: str) -> str:
    await write(pilot, code)
    await pilot.pause()
    app_of(pilot).editor.explain()
    card = card_of(pilot)
    await until(pilot, lambda: card.display)
    return str(card.content)


@pytest.mark.sample(2)
@pytest.mark.parametrize("code", ["x = mean(1, ", "mean", "mean([(1, 2), ", "mean(x)"])
async def test_call_is_explained(pilot: Pilot[None], code: str) -> None:
    text = await explained(pilot, code)
    assert "mean(\n    values: list[float],\n    /," in text
    assert "The mean of [bold]values[/bold]." in text


async def test_unresponsive_kernel_is_reported(pilot: Pilot[None]) -> None:
    assert await explained(pilot, "dead(") == "The kernel has ended."


@pytest.mark.parametrize("key", ["escape", "a", "left", "backspace"])
async def test_card_closes(pilot: Pilot[None], key: str) -> None:
    await explained(pilot, "mean(")
    await pilot.press(key)
    await until(pilot, lambda: not card_of(pilot).display)
    assert actions(pilot) == []


async def test_help_asked_for_right_after_typing_stays(pilot: Pilot[None]) -> None:
    editor = app_of(pilot).editor
    app_of(pilot).area.insert("mean(")
    # The editor has not been told of the text yet.
    editor.explain()
    await until(pilot, lambda: card_of(pilot).display)
    await pilot.pause()
    assert card_of(pilot).display


async def test_explanation_for_a_former_text_opens_nothing(
    pilot: Pilot[None], kernel: Kernel
) -> None:
    await write(pilot, "mean(")
    kernel.free.clear()
    app_of(pilot).editor.explain()
    await write(pilot, "x")
    kernel.free.set()
    await until(pilot, lambda: not card_of(pilot)._fetcher._running_counts["help"])
    await pilot.pause()
    assert not card_of(pilot).display

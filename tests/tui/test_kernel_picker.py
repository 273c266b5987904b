"""The list of kernels to go on with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.listing import KernelChoice, KernelPicker
from tests.tui.editor_app import until

HERE = KernelChoice("here", "here", "Python 3.12.1, /usr/bin/python3")
OTHERS = (
    KernelChoice("here", "here", "this machine"),
    KernelChoice("python", ".venv", "an environment of this machine"),
    KernelChoice("session", "1a2b3c4d", "runs cell 3: opens its session"),
    KernelChoice("address", "ssh://me@[b]host\x1b]0;x\x07", "used before"),
)


def opened(app: MahtabApp, picker: KernelPicker) -> bool:
    return app.screen is picker and len(picker.listing.rows) == len(OTHERS)


def test_the_list_shows_every_kind_of_kernel(
    make_app: Callable[..., MahtabApp], snap_compare: Callable[..., bool]
) -> None:
    app = make_app()
    picker = KernelPicker(HERE, lambda: OTHERS)

    async def run(pilot: Pilot[int]) -> None:
        app.push_screen(picker)
        await until(pilot, lambda: opened(app, picker))

    assert snap_compare(app, terminal_size=(80, 24), run_before=run)


async def test_kernel_can_be_chosen_typed_or_none(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app()
    chosen: list[KernelChoice | None] = []

    async def choose(pilot: Pilot[int], keys: Sequence[str]) -> None:
        picker = KernelPicker(HERE, lambda: OTHERS)
        app.push_screen(picker, chosen.append)
        await until(pilot, lambda: opened(app, picker))
        await pilot.press(*keys)

    async with app.run_test(size=(80, 24)) as pilot:
        await choose(pilot, ["enter"])
        await until(
            pilot,
            lambda: (
                "This kernel is in use"
                in str(app.screen.query_one(".listing-said", Static).content)
            ),
        )
        await pilot.press("escape")
        await until(pilot, lambda: len(chosen) == 1)
        await choose(pilot, ["down", "enter"])
        await until(pilot, lambda: len(chosen) == 2)
        await choose(pilot, [*"ssh", "colon", "slash", "slash", *"new", "enter"])
        await until(pilot, lambda: len(chosen) == 3)
    assert chosen == [None, OTHERS[1], KernelChoice("address", "ssh://new", "as typed")]


def test_command_line_address_counts_as_used_before(
    make_app: Callable[..., MahtabApp],
) -> None:
    assert make_app(kernel="ssh://me@host").ui_state.kernels == ("ssh://me@host",)

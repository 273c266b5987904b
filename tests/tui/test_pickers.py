"""The lists to pick from: themes that are seen at once, and a row at the cursor that can be
read."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.content import Content
from textual.widgets.option_list import Option

from mahtab_tui.settings.model import resource_folder
from mahtab_tui.tui.option_list import Options
from mahtab_tui.tui.screens.listing import ChooseTheme
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY, get_palette, role_variables


class ThemesApp(TerminalApp[None]):
    def __init__(self) -> None:
        super().__init__(css_path=[resource_folder("styles") / "dialogs.tcss"])


async def test_theme_is_previewed_at_once_and_escape_restores_the_old_one() -> None:
    app = ThemesApp()
    async with app.run_test() as pilot:
        app.push_screen(ChooseTheme(["mahtab", "mahtab-day", "nord"], "mahtab"))
        await pilot.pause()
        await pilot.press("down")
        await pilot.pause()
        assert app.theme == "mahtab-day"
        await pilot.press("escape")
        await pilot.pause()
        assert app.theme == "mahtab"
        app.push_screen(ChooseTheme(["mahtab", "mahtab-day", "nord"], "mahtab"))
        await pilot.pause()
        await pilot.press("n", "o", "r", "enter")
        await pilot.pause()
        assert app.theme == "nord"


class OptionsApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        for theme in (MAHTAB, MAHTAB_DAY):
            self.register_theme(theme)
        self.theme = "mahtab"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)

    def compose(self) -> ComposeResult:
        yield Options(
            *(Option(Content.assemble("title ", ("quiet", "$muted"))) for _ in range(2)),
            compact=True,
        )


async def test_dim_text_of_the_selected_row_uses_the_row_colour() -> None:
    app = OptionsApp()
    async with app.run_test() as pilot:
        await pilot.press("down")
        options, muted = app.query_one(Options), get_palette(app).muted.color
        options.highlighted = 1
        await pilot.pause()
        quiet = [
            [
                style.color == muted
                for text, style, _ in options.render_line(y)
                if "quiet" in text and style
            ]
            for y in range(2)
        ]
        assert quiet == [[True], [False]]

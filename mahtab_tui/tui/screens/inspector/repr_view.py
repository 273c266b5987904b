"""What an object says of itself."""

from __future__ import annotations

from mahtab_tui.tui.screens.inspector.text_source import LocalText
from mahtab_tui.tui.screens.inspector.text_view import TextView
from mahtab_tui.tui.screens.inspector.view import Place


class ReprView(TextView):
    """The object's own code runs for it, because the person opened this view."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, LocalText(""))

    def on_mount(self) -> None:
        self.look_again()

    def look_again(self) -> None:
        place = self.place
        self.say(("…", "$muted"))
        self.fetcher.ask("repr", lambda: place.look.representation(place.path), self._came, self._failed)

    def _failed(self, sentence: str) -> None:
        self.show(LocalText(""), problem=sentence)

    def _came(self, found: tuple[str, bool]) -> None:
        text, cut = found
        self.show(LocalText(f"{text}\n… it goes on …" if cut else text))

"""What an object says of itself: its own code runs for it, because the person opened this view."""

from __future__ import annotations

from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.screens.inspector.fetcher import Answered, Fetcher
from mahtab_tui.tui.screens.inspector.view import Place, Said
from mahtab_tui.tui.widgets.text_view import TextView


class ReprView(TextView):
    """The text of `repr`, up to a size."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.fetcher = Fetcher(self)

    def on_mount(self) -> None:
        self.look_again()

    def on_answered(self, message: Answered) -> None:
        message.deliver()

    def look_again(self) -> None:
        place = self.place
        self.fetcher.ask("repr", lambda: place.look.representation(place.path), self._came, self._failed)

    def _came(self, found: tuple[str, bool]) -> None:
        text, cut = found
        self.text = plain(text)
        self.post_message(Said(Content.styled(f"{len(text):,} characters{', more were left out' if cut else ''}", "$muted"), self))

    def _failed(self, sentence: str) -> None:
        self.post_message(Said(Content.styled(sentence, "$bad"), self))

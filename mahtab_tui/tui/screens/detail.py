"""A look inside one variable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.highlight import highlight
from textual.message import Message
from textual.widgets import Static, TabbedContent, TabPane

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import Detail, KernelError
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.widgets.text_view import TextView


class DetailScreen(Dialog[None]):
    """Opens at once; what it shows is fetched on a thread."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q", "leave", "Close"),
        ("r", "refresh_detail", "Look again"),
        ("c", "copy_text", "Copy"),
        ("w", "wrap", "Wrap"),
    ]

    class Loaded(Message):
        """The kernel has answered."""

        def __init__(self, detail: Detail | None, error: str) -> None:
            super().__init__()
            self.detail = detail
            self.error = error

    def __init__(self, name: str, load: Callable[[str], Detail]) -> None:
        super().__init__()
        self._variable = name
        self._load = load
        self._detail: Detail | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large"):
            yield Static(Content.assemble((self._variable, "bold"), "  …"), id="detail-title", markup=False)
            yield Static("", id="detail-error", markup=False)
            with TabbedContent(id="detail-tabs"):
                with TabPane("Value", id="value-tab"):
                    yield TextView(id="detail-text")
                with TabPane("Attributes", id="attributes-tab"), VerticalScroll():
                    yield Static("", id="detail-attributes", markup=False)
                with TabPane("Doc", id="doc-tab"), VerticalScroll():
                    yield Static("", id="detail-doc", markup=False)
                with TabPane("Source", id="source-tab"), VerticalScroll():
                    yield Static("", id="detail-source", markup=False)
            yield Static("Esc closes · r looks again · c copies · w wraps", classes="quiet", markup=False)

    def on_mount(self) -> None:
        self.query_one("#detail-error").display = False
        self.action_refresh_detail()

    def action_refresh_detail(self) -> None:
        threading.Thread(target=self._fetch, name="detail", daemon=True).start()

    def _fetch(self) -> None:
        try:
            self.post_message(self.Loaded(self._load(self._variable), ""))
        except KernelError as error:
            self.post_message(self.Loaded(None, str(error)))

    def on_detail_screen_loaded(self, message: Loaded) -> None:
        """Show what has come."""
        detail = self._detail = message.detail
        error = message.error or (detail.error if detail is not None else "")
        shown = self.query_one("#detail-error", Static)
        shown.display = bool(error)
        shown.update(Content(plain(error)))
        if detail is None:
            return
        title = Content.assemble((plain(detail.name), "bold"), "  ", (plain(detail.type), "$muted"), "  ", plain(detail.summary))
        self.query_one("#detail-title", Static).update(title)
        cut = f"\n… {detail.cut:,} characters or more left out …" if detail.cut else ""
        self.query_one(TextView).text = plain(detail.text) + cut
        self._attributes(detail)
        self.query_one("#detail-doc", Static).update(Content(plain(detail.doc) or "It has no docstring."))
        source = highlight(plain(detail.source), language="python") if detail.source else Content("The source is not known.")
        where = Content.styled(plain(detail.where) + "\n\n", "$muted") if detail.where else Content("")
        self.query_one("#detail-source", Static).update(where + source)
        if detail.source and detail.text.startswith("<"):
            self.query_one(TabbedContent).active = "source-tab"

    def _attributes(self, detail: Detail) -> None:
        width = max((len(attribute.name) for attribute in detail.attributes), default=0)
        lines = [
            Content.assemble((f"{plain(a.name):<{width}}", "bold"), "  ", (plain(a.type), "$muted"), "  ", plain(a.summary))
            for a in detail.attributes
        ]
        content = Content("\n").join(lines) if lines else Content("It has no attributes of its own.")
        self.query_one("#detail-attributes", Static).update(content)

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_copy_text(self) -> None:
        if self._detail is not None:
            self.app.copy_to_clipboard(plain(self._detail.text))
            self.app.notify(f"Copied {len(self._detail.text):,} characters.", markup=False, timeout=3)

    def action_wrap(self) -> None:
        view = self.query_one(TextView)
        view.wrapped = not view.wrapped

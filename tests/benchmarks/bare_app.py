"""A Textual application of such widgets: the baseline of the screen's figures."""

from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, Header, Input, RichLog, TextArea


class BareApp(App[None]):
    BINDINGS = [("f1", "help", "Help"), ("f2", "mode", "Mode"), ("ctrl+q", "quit", "Quit")]  # noqa: RUF012

    def compose(self) -> ComposeResult:
        yield Header()
        with Horizontal():
            with Vertical():
                yield RichLog(id="transcript")
                yield Input()
                yield TextArea.code_editor("", language="python", show_line_numbers=False)
            with Vertical():
                yield RichLog()
                yield RichLog()
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#transcript", RichLog).write("ready to type")
        self.query_one(TextArea).focus()


if __name__ == "__main__":
    BareApp().run()

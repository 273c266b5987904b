"""The editor, in which the user types Python or a question."""

from mahtab_tui.tui.editor.pane import EditorPane

__all__ = ["EditorPane"]

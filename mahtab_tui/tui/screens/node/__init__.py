"""One call of a search, on a screen of its own."""

from mahtab_tui.tui.screens.node.screen import NodeScreen

__all__ = ["NodeScreen"]

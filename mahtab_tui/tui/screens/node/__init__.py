"""The screen of one call of a search."""

from mahtab_tui.tui.screens.node.screen import NodeScreen

__all__ = ["NodeScreen"]

"""The recursion pane: every search as a tree, live."""

from mahtab_tui.tui.panes.recursion.pane import RecursionPane

__all__ = ["RecursionPane"]

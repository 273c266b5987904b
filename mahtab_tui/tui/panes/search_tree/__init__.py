"""The pane that shows every search as a tree, live."""

from mahtab_tui.tui.panes.search_tree.pane import SearchTreePane

__all__ = ["SearchTreePane"]

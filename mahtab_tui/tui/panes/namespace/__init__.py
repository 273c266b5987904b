"""The namespace: every variable, and who made or last changed it."""

from mahtab_tui.tui.panes.namespace.pane import NamespacePane

__all__ = ["NamespacePane"]

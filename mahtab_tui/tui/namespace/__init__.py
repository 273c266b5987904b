"""The namespace pane: every variable, and who created or last changed it."""

from mahtab_tui.tui.namespace.pane import NamespacePane

__all__ = ["NamespacePane"]

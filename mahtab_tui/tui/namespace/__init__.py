"""The namespace pane: every variable, and who last changed it."""

from mahtab_tui.tui.namespace.pane import NamespacePane

__all__ = ["NamespacePane"]

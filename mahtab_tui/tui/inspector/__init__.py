"""The inspector: a screen that shows any object."""

from mahtab_tui.tui.inspector.screen import InspectorScreen

__all__ = ["InspectorScreen"]

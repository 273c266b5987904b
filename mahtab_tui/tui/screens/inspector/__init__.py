"""The inspector: a screen that shows any object."""

from mahtab_tui.tui.screens.inspector.screen import InspectorScreen

__all__ = ["InspectorScreen"]

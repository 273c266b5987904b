"""A look inside any object, on a screen of its own."""

from mahtab_tui.tui.screens.inspector.screen import InspectorScreen

__all__ = ["InspectorScreen"]

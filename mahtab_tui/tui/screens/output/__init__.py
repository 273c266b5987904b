"""Screens for the output of a cell: its text, its pictures, the frames of its error."""

from mahtab_tui.tui.screens.output.frames import FramesScreen
from mahtab_tui.tui.screens.output.pager import PagerScreen
from mahtab_tui.tui.screens.output.pictures import PicturesScreen

__all__ = ["FramesScreen", "PagerScreen", "PicturesScreen"]

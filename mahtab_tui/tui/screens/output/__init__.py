"""What a cell has given, over the whole screen: all that it printed, its pictures, or where its error was."""

from mahtab_tui.tui.screens.output.frames import FramesScreen
from mahtab_tui.tui.screens.output.pager import PagerScreen
from mahtab_tui.tui.screens.output.pictures import PicturesScreen

__all__ = ["FramesScreen", "PagerScreen", "PicturesScreen"]

"""What a cell has given, over the whole screen: all that it printed, or its pictures."""

from mahtab_tui.tui.screens.output.pager import PagerScreen
from mahtab_tui.tui.screens.output.pictures import PicturesScreen

__all__ = ["PagerScreen", "PicturesScreen"]

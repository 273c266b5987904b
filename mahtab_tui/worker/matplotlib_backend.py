"""The matplotlib backend for cells: draws with Agg and shows figures in the transcript."""

from __future__ import annotations

from typing import Any

from matplotlib.backend_bases import FigureManagerBase, _Backend
from matplotlib.backends.backend_agg import FigureCanvasAgg

from .displays import show_all


@_Backend.export
class _CellBackend(_Backend):
    FigureCanvas = FigureCanvasAgg
    FigureManager = FigureManagerBase

    @classmethod
    def show(cls, *, block: Any = None) -> None:
        show_all()

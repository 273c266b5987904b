"""matplotlib's figures: `plt.show()` sends them to the screen, and so does the end of the cell that drew them."""

from __future__ import annotations

import sys
from typing import Any

BACKEND = f"module://{__package__}.backend"


def choose_backend() -> None:
    """Make ours the backend of pyplot, where neither the person nor pyplot has chosen one. Called while matplotlib loads."""
    parameters = getattr(sys.modules.get("matplotlib"), "rcParams", None)
    # Read past its own `__getitem__`, which would choose one.
    if isinstance(parameters, dict) and not isinstance(dict.get(parameters, "backend"), str):
        parameters["backend"] = BACKEND


def png_of(figure: Any, side: int) -> bytes:
    """A figure as a picture, as large as it is drawn, with at most about so many pixels on a side."""
    from io import BytesIO

    file = BytesIO()
    dpi = min(figure.dpi, side / max(figure.get_size_inches()))
    figure.savefig(file, format="png", dpi=dpi, bbox_inches="tight", facecolor=figure.get_facecolor())
    return file.getvalue()


def done_with(figure: Any) -> None:
    """It has been shown: pyplot need not hold it any more, where it would be shown once more."""
    if _ours():
        sys.modules["matplotlib.pyplot"].close(figure)


def show_all() -> None:
    """Show what pyplot holds."""
    from .displays import display

    if _ours():
        pyplot: Any = sys.modules["matplotlib.pyplot"]
        for number in pyplot.get_fignums():
            display(pyplot.figure(number))


def _ours() -> bool:
    pyplot = sys.modules.get("matplotlib.pyplot")
    parameters = getattr(sys.modules.get("matplotlib"), "rcParams", {})
    return hasattr(pyplot, "get_fignums") and dict.get(parameters, "backend") == BACKEND

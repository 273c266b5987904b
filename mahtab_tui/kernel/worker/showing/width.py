"""Makes pandas use the width of the screen."""

from __future__ import annotations

import sys
from typing import Any

_OWN_DEFAULT = 80


def fit_pandas() -> bool:
    """Make pandas use the terminal's width (COLUMNS), unless its option was changed. Called while pandas loads.

    Returns False if pandas does not have its options yet, early in its import.
    """
    config: Any = sys.modules.get("pandas._config")
    try:
        if config.get_option("display.width") == _OWN_DEFAULT:
            config.set_option("display.width", None)
    except (AttributeError, KeyError):  # pandas raises OptionError, a KeyError
        return False
    return True

"""Tables that pandas prints take the width of the screen."""

from __future__ import annotations

import sys
from typing import Any

_OWN_DEFAULT = 80


def fit_pandas() -> bool:
    """Let pandas ask how wide the terminal is (COLUMNS), unless its option was changed. Called while pandas loads.

    Returns whether that is settled: early in the import, pandas does not have its options yet.
    """
    config: Any = sys.modules.get("pandas._config")
    try:
        if config.get_option("display.width") == _OWN_DEFAULT:
            config.set_option("display.width", None)
    except (AttributeError, KeyError):  # pandas raises OptionError, a KeyError
        return False
    return True

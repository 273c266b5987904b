"""The handlers of the bus."""

from mahtab_tui.bus.display import DisplayHandler
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.store_handler import Store, StoreError, StoreHandler

__all__ = ["DisplayHandler", "PromptHandler", "Store", "StoreError", "StoreHandler"]

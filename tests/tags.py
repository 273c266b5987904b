"""The tags of records."""

from mahtab_tui.bus.records import KINDS


def __getattr__(name: str) -> str:
    tag = name.lower().replace("_", "-")
    if (tag, "") in KINDS or (tag, "begin") in KINDS:
        return tag
    raise AttributeError(name)

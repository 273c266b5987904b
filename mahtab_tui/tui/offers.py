"""Lines that are offered to the person: one key puts the newest into the input, and nothing runs before they enter it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.environments import Found, has_package, prefix_of
from mahtab_tui.session.inbox import Mode

_MISSING = re.compile(r"^ModuleNotFoundError: No module named '([A-Za-z_][A-Za-z0-9_]*)(?:\.[\w.]*)?'", re.MULTILINE)
_END = 2_000
"""Characters at the end of an output that are looked at."""
_PACKAGES = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Modules whose package has another name."""


class Offer(NamedTuple):
    """A line for the input, and why."""

    mode: Mode
    line: str
    why: str
    """A sentence, without its full stop."""


def missing_module(records: Sequence[Record]) -> str:
    """The module that the newest of some cells could not import; empty where that was not how it ended."""
    for record in reversed(records):
        if record.tag in (tags.USER_REPL_OUT, tags.ASSISTANT_REPL_OUT) and "status" in record.attrs:
            found = _MISSING.findall(record.text[-_END:]) if record.attrs["status"] == "error" else []
            return found[-1] if found else ""
    return ""


def offer_for(module: str, environments: Sequence[Found]) -> Offer:
    """How a module can be had that the kernel's Python lacks: another environment that has it, else its package."""
    for found in environments:
        if has_package(found.prefix, module):
            return Offer("ask", f"/python {found.path}", f"{found.path} has {module}; this Python does not")
    return Offer("python", f"%pip install {_PACKAGES.get(module, module)}", f"This Python has no {module}")


def welcome_of(version: str, python: str, environments: Sequence[Found], *, pandas: bool) -> tuple[str, Offer | None]:
    """What the first screen says of the kernel's Python, and what may be better."""
    place = str(prefix_of(python) or python)
    home = os.path.expanduser("~")
    place = f"~{place.removeprefix(home)}" if place.startswith(f"{home}/") else place
    runs = f"{version} of {place}, {'with' if pandas else 'without'} pandas"
    if not pandas:
        offer = offer_for("pandas", environments)
        return f"{runs}; {offer.line.removeprefix('/python ')} has it" if offer.mode == "ask" else runs, offer
    if environments:
        path = environments[0].path
        return f"{runs}. There is {path}, too", Offer("ask", f"/python {path}", f"There is {path}")
    return runs, None

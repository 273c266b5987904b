"""Which settings a project's files may set without being trusted, and the record of what the user
trusts: a project may come from anybody.

The lists here name the settings that only change how things look, or make the program more careful.
Every other setting takes effect only after the user trusts it, also one that is added later.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LOOKS = frozenset({"theme", "pictures", "output_format", "highlight"})
_LIMITS = frozenset(
    "max_turns max_usd max_history model_timeout skills_budget"
    " rlm_max_depth rlm_max_turns rlm_max_calls rlm_max_usd rlm_max_seconds rlm_ask_above".split()
)
"""Allowed up to the user's own value, from their file or by default."""
_COMMANDS = frozenset(
    "toggle-mode history-search explain find-input jump next-pane previous-pane toggle-side toggle-namespace changes toggle-recursion maximize"
    " wider narrower taller shorter settings dark-light palette help".split()
)
"""Commands whose keys a project may change: they show something or move the focus."""
_KEY = re.compile(r"f([1-6]|1\d|2[0-4])|alt\+([a-z0-9]|left|right|up|down)")
"""Keys that a project may use. None of them stops, answers, approves or types anything."""


def guarded(values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a project's file that must be trusted first. own: the user's values
    without that file, at least limits and keys."""
    return {
        key: value for key, value in values.items() if not _is_harmless(key, value, own.get(key))
    }


def _is_harmless(key: str, value: Any, own: Any) -> bool:
    if key in _LIMITS:
        return own is None or _is_at_most(value, own)
    if key == "keymap":
        taken = ",".join(map(str, own.values())).split(",") if isinstance(own, dict) else []
        return isinstance(value, dict) and all(
            name in _COMMANDS and _are_free(keys, taken) for name, keys in value.items()
        )
    return key in _LOOKS or (key == "approval" and value == "ask")


def _are_free(keys: Any, taken: list[str]) -> bool:
    return isinstance(keys, str) and all(
        _KEY.fullmatch(key) and key not in taken for key in keys.split(",")
    )


def _is_at_most(value: Any, own: Any) -> bool:
    try:
        return float(value) <= float(own)
    except (TypeError, ValueError, OverflowError):
        return False


def allowed(record: Path, file: Path) -> dict[str, str]:
    """Return the digests of the trusted values of a file, by key; empty if the record cannot be
    read."""
    return allowed_in(read_record(record), file)


def allowed_in(known: Mapping[str, Mapping[str, Any]], file: Path) -> dict[str, str]:
    """Return the digests of the trusted values of a file, by key. known: from `read_record`."""
    return {
        key: value for key, value in known.get(_name(file), {}).items() if isinstance(value, str)
    }


def read_record(record: Path) -> dict[str, dict[str, Any]]:
    """Return the digests of all trusted values, by file and key."""
    try:
        known = json.loads(record.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return (
        {file: keys for file, keys in known.items() if isinstance(keys, dict)}
        if isinstance(known, dict)
        else {}
    )


def with_allowed(record: Path, files: Mapping[Path, Mapping[str, Any]]) -> str:
    """Return the record as text, with these values of files added."""
    known = read_record(record)
    for file, values in files.items():
        digests = {key: digest(value) for key, value in values.items()}
        known[_name(file)] = {**known.get(_name(file), {}), **digests}
    return json.dumps(known, indent=1) + "\n"


def digest(value: Any) -> str:
    """Return a hash that recognises a value, so that a changed value must be trusted again. The
    value may be a secret and is not stored."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _name(file: Path) -> str:
    """Return the file with the real path of its project. The file itself may be a link, which the
    project could point anywhere."""
    project = file.parent.parent if file.parent.name == ".mahtab" else file.parent
    return str(Path(os.path.realpath(project)) / file.relative_to(project))

"""What a project's own files may not set before the person has allowed it: a project may come from anybody.

That is what runs a program, lets code run unasked, sends what is said somewhere else or without being asked, lets more be spent than
the person has said, or opens folders outside of the project.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_GUARDED = frozenset({"python", "base_url", "suggestion_model"})
"""Whatever they are set to."""
_FOLDERS = frozenset({"code_dir", "skills_dir", "project"})
"""Where they lead out of the project."""
_LIMITS = frozenset({"max_usd", "rlm_max_usd"})
"""Where they are above the person's own."""


def guarded(project: Path, values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What needs the person's word, of the values that a file of a project sets. own: those that the person's file sets."""
    return {key: value for key, value in values.items() if _is_guarded(project, key, value, own.get(key))}


def _is_guarded(project: Path, key: str, value: Any, own: Any) -> bool:
    if key in _FOLDERS:
        folders = value if isinstance(value, list) else str(value).split(os.pathsep)
        return any(_leads_out(project, folder) for folder in folders)
    if key == "keymap":  # one that switches approval by another key than the person's
        return isinstance(value, dict) and "cycle-approval" in value
    if key == "api_keys":  # another account in the place of the person's
        return isinstance(value, dict) and isinstance(own, dict) and any(own.get(name, each) != each for name, each in value.items())
    if key in _LIMITS:
        return own is not None and _is_above(value, own)
    return key in _GUARDED or (key == "approval" and value != "ask")


def _is_above(value: Any, own: Any) -> bool:
    try:
        return not float(value) <= float(own)
    except (TypeError, ValueError):
        return False  # that it is no number is said when it is validated


def allowed(record: Path, file: Path) -> dict[str, str]:
    """The digests of what the person has allowed a file to set, by key; empty where the record cannot be read."""
    return {key: value for key, value in read_record(record).get(_name(file), {}).items() if isinstance(value, str)}


def read_record(record: Path) -> dict[str, dict[str, Any]]:
    """All that the person has allowed, by file and key."""
    try:
        known = json.loads(record.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return {file: keys for file, keys in known.items() if isinstance(keys, dict)} if isinstance(known, dict) else {}


def with_allowed(record: Path, file: Path, values: Mapping[str, Any]) -> str:
    """The record as text, with these values of a file allowed as well."""
    known = read_record(record)
    known[_name(file)] = {**known.get(_name(file), {}), **{key: digest(value) for key, value in values.items()}}
    return json.dumps(known, indent=1) + "\n"


def digest(value: Any) -> str:
    """By what a value is known again: one that has changed has to be allowed anew. The value itself may be nobody's to read."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _name(file: Path) -> str:
    """A file by where the project really is; the file's own part of the path may be a link, which leads wherever the project wants."""
    project = file.parent.parent if file.parent.name == ".mahtab" else file.parent
    return str(Path(os.path.realpath(project)) / file.relative_to(project))


def _leads_out(project: Path, value: Any) -> bool:
    if not isinstance(value, str):
        return False  # that it is no folder is said when it is validated
    try:
        return not Path(os.path.realpath(project / Path(value).expanduser())).is_relative_to(os.path.realpath(project))
    except (OSError, RuntimeError, ValueError):
        return False

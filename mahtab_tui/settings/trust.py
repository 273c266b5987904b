"""Which values of a project's files the user trusts. Others take no effect, except those that only
change how things look, or make the program more careful."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mahtab_tui.settings.files import Values, config_files, home_folder, project_folder

APPEARANCE_KEYS = frozenset({"theme", "pictures"})
"""Settings that a project may change without trust, because they only change how things look."""


def trust_record_file() -> Path:
    """Return the file with the digests of all trusted values."""
    return home_folder() / "trusted.json"


def read_trust_record() -> dict[str, Values]:
    """Return the digests of all trusted values, by file and key."""
    try:
        record = json.loads(trust_record_file().read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(record, dict):
        return {}
    return {file: digests for file, digests in record.items() if isinstance(digests, dict)}


def trusted_digests(record: Mapping[str, Mapping[str, Any]], file: Path) -> Mapping[str, Any]:
    """Return the digests of a file's trusted values by key. record: from `read_trust_record`."""
    return record.get(_record_name(file), {})


def add_trusted(files: Mapping[Path, Mapping[str, Any]]) -> str:
    """Return the record as text, with these values of files added."""
    record = read_trust_record()
    for file, values in files.items():
        digests = {key: value_digest(value) for key, value in values.items()}
        record[_record_name(file)] = {**trusted_digests(record, file), **digests}
    return json.dumps(record, indent=1) + "\n"


def value_digest(value: object) -> str:
    """Return a hash that recognises a value, which may be a secret."""
    data = json.dumps(value, sort_keys=True, default=str).encode()
    return hashlib.sha256(data).hexdigest()


def _record_name(file: Path) -> str:
    """Return the name of a file in the record: the file with the real path of its project.

    The file itself may be a link, which the project could point anywhere.
    """
    project = file.parent
    if project.name == ".mahtab":
        project = project.parent
    return str(Path(os.path.realpath(project)) / file.relative_to(project))


def untrusted_settings(path: Path, values: Mapping[str, Any]) -> Values:
    """Return the values of a configuration file that the user has not trusted yet; never any of the
    user's own file. Raises `SettingsError`."""
    project = project_folder()
    # Whoever starts the program at home has no project; the files there are the user's own.
    is_in_home = os.path.realpath(project) == os.path.realpath(Path.home())
    if path == config_files(project).user_file or is_in_home:
        return {}

    digests = trusted_digests(read_trust_record(), path)
    untrusted: Values = {}
    for key, value in values.items():
        # A project may change how things look, and make approval as strict as it can be.
        is_harmless = key in APPEARANCE_KEYS or (key, value) == ("approval", "ask")
        if not is_harmless and digests.get(key) != value_digest(value):
            untrusted[key] = value
    return untrusted

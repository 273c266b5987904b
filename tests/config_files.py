"""Configuration files."""

from __future__ import annotations

import json
from pathlib import Path


def toml(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(name)} = {toml(child)}" for name, child in value.items())
        return "{" + ", ".join(pairs) + "}"
    return json.dumps(value)


def config_file(folder: Path, text: str | bytes) -> Path:
    """Write the configuration file of a home folder or project."""
    path = folder / ".mahtab" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path

"""Change one value of a configuration file and leave the rest as it is. Files are replaced in one
step, so no reader finds half a file."""

from __future__ import annotations

import contextlib
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.settings.model import Settings, SettingsError
from mahtab_tui.settings.sources import (
    held_back,
    line_of,
    read_config,
    read_text,
    trust_record,
    variable_of,
)
from mahtab_tui.settings.trust import with_allowed
from mahtab_tui.settings.values import choices, is_table, validated

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_HEAD = """\
# Settings of mahtab-tui. Lines that begin with # show the defaults; remove the # to change one.
# The command line overrides variables (such as {example}), which override .env, a project's .mahtab/config.toml, and this file, in this order.
"""


def set_value(path: Path, key: str, value: Any) -> None:
    """Write a value made by `values.written`. A value that the user writes into a project's file is
    trusted.

    Raises `SettingsError` if the file cannot be read or written.
    """
    table, dot, name = key.partition(".")

    def change(document: TOMLDocument) -> None:
        if not dot:
            document[table] = value
        elif isinstance(inside := document.get(table), dict):
            inside[name] = value
        else:
            document[table] = {name: value}

    others_held_back = bool(dot) and table in held_back(Settings, path, read_config(path))
    _change(path, change)
    held = held_back(Settings, path, read_config(path))
    if table in held and not others_held_back:
        allow(path, {table: held[table]})


def add_rules(path: Path, rules: Sequence[str]) -> None:
    """Add rules for code to those in a configuration file. Raises `SettingsError` as
    `set_value`."""
    before = validated("approval_rules", read_config(path).get("approval_rules", ()))
    set_value(path, "approval_rules", [*before, *(rule for rule in rules if rule not in before)])


def allow(path: Path, values: Mapping[str, Any]) -> None:
    """Trust these values of a project's file from now on. Raises `SettingsError`."""
    allow_files({path: values})


def allow_files(files: Mapping[Path, Mapping[str, Any]]) -> None:
    """Trust these values of a project's files from now on. Raises `SettingsError`."""
    write_text(trust_record(), with_allowed(trust_record(), files))


def unset(path: Path, key: str) -> bool:
    """Remove a value from the file; False if it was not there. Raises `SettingsError` as
    `set_value`."""
    table, dot, name = key.partition(".")
    values = read_config(path)
    if table not in values or (
        dot and not (isinstance(values[table], dict) and name in values[table])
    ):
        return False

    def change(document: TOMLDocument) -> None:
        if dot and len(values[table]) > 1:
            del document[table][name]
        else:
            del document[table]

    _change(path, change)
    return True


def _change(path: Path, change: Callable[[TOMLDocument], None]) -> None:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    read_config(path)  # says what is wrong with it
    try:
        document = tomlkit.parse(read_text(path))
        change(document)
        text = tomlkit.dumps(document)
        tomllib.loads(text)
    except (TOMLKitError, ValueError, KeyError, RecursionError) as error:
        raise SettingsError(
            f"{path}: this file can only be changed in an editor: {error}."
        ) from None
    write_text(path, text if text.endswith("\n") else f"{text}\n")


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step; a link stays a link, and only its owner can read a new file.
    Raises `SettingsError`."""
    target = Path(os.path.realpath(path))
    draft = None
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        draft = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            if target.exists():
                os.fchmod(handle, target.stat().st_mode & 0o7777)
            file.write(text)
            file.flush()
            os.fsync(handle)
        draft.replace(target)
    except OSError as error:
        if draft is not None:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        raise SettingsError(f"{path}: the file cannot be written: {error.strerror}.") from None


def problems(path: Path) -> list[str]:
    """Return the problems of a file, one sentence with line each."""
    try:
        values = read_config(path)
    except SettingsError as error:
        return [str(error)]
    found = []
    for key, value in values.items():
        try:
            validated(key, value)
        except SettingsError as error:
            found.append(f"{path}, line {line_of(path, key)}: {error}")
    return found


_EXAMPLES = {
    "api_keys": '# [api_keys]\n# openai = ""',
    "keymap": '# [keymap]\n# toggle-mode = ""',
    "mcp": '# [mcp]\n# github = { command = "npx", args = ["-y", "@modelcontextprotocol/server-github"] }',
}
"""Entry for each table."""


def template() -> str:
    """Return a new file, with every default as a comment."""
    parts = [_HEAD.format(example=variable_of("model"))]
    tables = [key for key in Settings.model_fields if is_table(key)]
    for key, field in Settings.model_fields.items():
        if key not in tables:
            allowed = f" ({', '.join(choices(key))})" if choices(key) else ""
            default = _default(field.get_default(call_default_factory=True))
            parts.append(f"# {field.description}{allowed}\n# {f'{key} = {default}'.rstrip()}\n")
    for key in tables:
        parts.append(f"# {Settings.model_fields[key].description}\n{_EXAMPLES[key]}\n")
    return "\n".join(parts)


def _default(value: Any) -> str:
    """Return a default as TOML; empty if there is none."""
    import tomlkit

    if value is None:
        return ""
    return tomlkit.item(
        [] if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    ).as_string()

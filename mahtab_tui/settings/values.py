"""Settings by key: shown, validated, and written to files."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import SecretStr, ValidationError

from mahtab_tui.settings.files import first_problem, read_config, read_text
from mahtab_tui.settings.mcp_servers import MASK, URL_CREDENTIALS
from mahtab_tui.settings.model import Settings, SettingsError
from mahtab_tui.settings.sources import ValueOrigin, describe_unknown_setting
from mahtab_tui.settings.trust import add_trusted, trust_record_file, untrusted_settings
from mahtab_tui.system import replace_file

THIS_SESSION = "this session"
NOT_SET = "(not set)"


class SettingEntry(NamedTuple):
    """A setting, or one entry of a table."""

    key: str
    value: str
    origin: ValueOrigin
    description: str


def list_settings(settings: Settings) -> list[SettingEntry]:
    """Return all settings in order, each entry of a table separately. Raises `SettingsError`."""
    sources = settings.reloaded()
    rows: list[SettingEntry] = []
    for key, field in Settings.model_fields.items():
        value = getattr(settings, key)
        is_changed = value != getattr(sources, key)
        values = {key: value}
        if value and isinstance(value, dict):
            values = {f"{key}.{name}": entry for name, entry in value.items()}
        for row_key, row_value in values.items():
            origin = ValueOrigin(THIS_SESSION) if is_changed else settings.origin(row_key)
            text = format_value(row_value)
            rows.append(SettingEntry(row_key, text, origin, field.description or ""))
    return rows


def format_value(value: object) -> str:
    """Return a value as text; a secret is masked."""
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return " ".join(f"{name}={format_value(entry)}" for name, entry in value.items()) or NOT_SET
    if isinstance(value, tuple):
        has_paths = any(isinstance(item, Path) for item in value)
        separator = os.pathsep if has_paths else "; "
        return separator.join(map(str, value)) or NOT_SET
    if value is None:
        return NOT_SET
    return URL_CREDENTIALS.sub(MASK, str(value))


def is_table(key: str) -> bool:
    """Whether a setting has entries with names of their own."""
    return get_origin(Settings.model_fields[key].annotation) is dict


def is_secret(key: str) -> bool:
    """Whether a setting, or the table of an entry, holds secrets."""
    table, *_ = key.split(".")
    return SecretStr in _union_types(Settings.model_fields[table].annotation)


def choices(key: str) -> tuple[str, ...]:
    """Return the values that a setting may have; empty if they are not a fixed list."""
    types = _union_types(Settings.model_fields[key].annotation)
    if bool in types:
        return ("true", "false")
    for member in types:
        if get_origin(member) is Literal:
            return get_args(member)
    return ()


def _union_types(annotation: object) -> tuple[object, ...]:
    """Return an annotation and its arguments, such as the members of a union."""
    return (annotation, *get_args(annotation))


def validate_value(key: str, value: object) -> Any:
    """Return the value with the setting's type; `key` may be an entry of a table ("keymap.help").

    Raises `SettingsError`.
    """
    table, dot, name = key.partition(".")
    if table not in Settings.model_fields:
        sentence = describe_unknown_setting(Settings, table)
        raise SettingsError(sentence[0].upper() + sentence[1:])
    if dot and not (name and is_table(table)):
        raise SettingsError(f"{key}: there is no such entry.")
    draft = Settings.model_construct()
    try:
        setattr(draft, table, {name: value} if dot else value)
    except ValidationError as error:
        raise SettingsError(f"{key}: {first_problem(error)}.") from None
    validated = getattr(draft, table)
    return validated[name] if dot else validated


def parse_value(key: str, text: str) -> Any:
    """Return typed text as the value for a configuration file; a table is typed as ``name=value
    name=value``. Raises `SettingsError`."""
    raw_value: str | dict[str, str] = text
    if key in Settings.model_fields and is_table(key):
        raw_value = _parse_pairs(key, text)
    value = validate_value(key, raw_value)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, tuple) and value and all(isinstance(item, str) for item in value):
        return list(value)
    if isinstance(value, tuple):
        # As they were typed: a validated folder has no ~ any more.
        return [folder for folder in text.split(os.pathsep) if folder]
    return raw_value


def _parse_pairs(key: str, text: str) -> dict[str, str]:
    """Return the entries of a table. Raises `SettingsError`."""
    entries: dict[str, str] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        if not name or not value:
            # Without an equals sign, the name may be a secret.
            visible_name = MASK if is_secret(key) else repr(name)
            raise SettingsError(
                f"{key}: {visible_name} is not a pair. Write name=value, with spaces between pairs."
            )
        entries[name] = value
    return entries


def parse_assignments(pairs: list[str]) -> dict[str, Any]:
    """Return the values of ``--set key=value``, for `load_settings`. Raises `SettingsError`."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        try:
            if not sign:
                raise SettingsError(f"{pair}: write key=value.")
            value = parse_value(key.strip(), text.strip())
        except SettingsError as error:
            raise SettingsError(f"--set {error}") from None
        table, dot, name = key.strip().partition(".")
        if dot:
            options[table] = {**options.get(table, {}), name: value}
        else:
            options[table] = value
    return options


def set_value(path: Path, key: str, value: object) -> None:
    """Write a value made by `parse_value`.

    A value that the user writes into a project's file is trusted. Raises `SettingsError`.
    """
    table, dot, _ = key.partition(".")
    # Trust is given to whole tables, and must not include entries that others wrote.
    had_untrusted_entries = bool(dot) and table in untrusted_settings(path, read_config(path))
    _write(path, key, value)
    untrusted = untrusted_settings(path, read_config(path))
    if table in untrusted and not had_untrusted_entries:
        trust_values({path: {table: untrusted[table]}})


def add_rules(path: Path, rules: Sequence[str]) -> None:
    """Add rules for code to those in a configuration file. Raises `SettingsError`."""
    existing_rules = validate_value("approval_rules", read_config(path).get("approval_rules", ()))
    new_rules = [rule for rule in rules if rule not in existing_rules]
    set_value(path, "approval_rules", [*existing_rules, *new_rules])


def trust_values(files: Mapping[Path, Mapping[str, Any]]) -> None:
    """Trust these values of a project's files from now on. Raises `SettingsError`."""
    write_text(trust_record_file(), add_trusted(files))


def unset(path: Path, key: str) -> bool:
    """Remove a value from the file; False if it was not there. Raises `SettingsError`."""
    table, dot, name = key.partition(".")
    value = read_config(path).get(table)
    if value is None:
        return False
    if not dot:
        _write(path, table, None)
        return True

    if not isinstance(value, dict) or name not in value:
        return False
    # A table does not stay without entries.
    is_only_entry = len(value) == 1
    _write(path, table if is_only_entry else key, None)
    return True


def _write(path: Path, key: str, value: object) -> None:
    """Write a value, or remove it if it is None."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    read_config(path)  # says what is wrong with it
    table, dot, name = key.partition(".")
    try:
        document = tomlkit.parse(read_text(path))
        container: MutableMapping[str, Any] = document
        container_key = table
        if dot:
            if not isinstance(document.get(table), dict):
                document[table] = {}
            container = document[table]
            container_key = name
        if value is None:
            del container[container_key]
        else:
            container[container_key] = value
        text = tomlkit.dumps(document)
        tomllib.loads(text)  # what tomlkit wrote may not be valid
    except (TOMLKitError, ValueError, KeyError, RecursionError) as error:
        raise SettingsError(
            f"{path}: this file can only be changed in an editor: {error}."
        ) from None
    write_text(path, text if text.endswith("\n") else f"{text}\n")


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step; only its owner can read a new one. Raises `SettingsError`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, text, mode=0o600)
    except OSError as error:
        raise SettingsError(f"{path}: the file cannot be written: {error.strerror}.") from None

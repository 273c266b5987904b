"""Settings by key: shown, validated, and written to files."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import SecretStr, ValidationError

from mahtab_tui.settings.model import Settings, SettingsError
from mahtab_tui.settings.sources import (
    MASK,
    WITHIN_URL,
    ValueOrigin,
    add_trusted,
    describe_unknown_setting,
    first_problem,
    read_config,
    read_text,
    trust_record,
    untrusted_settings,
)
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
    found: list[SettingEntry] = []
    for key, field in Settings.model_fields.items():
        value = getattr(settings, key)
        is_changed = value != getattr(sources, key)
        entries = {key: value}
        if value and isinstance(value, dict):
            entries = {f"{key}.{name}": each for name, each in value.items()}
        for name, each in entries.items():
            origin = ValueOrigin(THIS_SESSION) if is_changed else settings.origin(name)
            found.append(SettingEntry(name, format_value(each), origin, field.description or ""))
    return found


def format_value(value: Any) -> str:
    """Return a value as text; a secret is masked."""
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return " ".join(f"{name}={format_value(each)}" for name, each in value.items()) or NOT_SET
    if isinstance(value, tuple):
        gap = os.pathsep if any(isinstance(each, Path) for each in value) else "; "
        return gap.join(map(str, value)) or NOT_SET
    return NOT_SET if value is None else WITHIN_URL.sub(MASK, str(value))


def is_table(key: str) -> bool:
    return get_origin(Settings.model_fields[key].annotation) is dict


def is_secret(key: str) -> bool:
    return SecretStr in _types(Settings.model_fields[key.partition(".")[0]].annotation)


def choices(key: str) -> tuple[str, ...]:
    kinds = _types(Settings.model_fields[key].annotation)
    if bool in kinds:
        return ("true", "false")
    return next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())


def _types(annotation: Any) -> tuple[Any, ...]:
    return (annotation, *get_args(annotation))


def validate_value(key: str, value: Any) -> Any:
    """Return the value with the setting's type; `key` may be an entry of a table ("keymap.help").
    Raises `SettingsError`."""
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
    checked = getattr(draft, table)
    return checked[name] if dot else checked


def parse_value(key: str, text: str) -> Any:
    """Return typed text as the value for a configuration file; a table is typed as ``name=value
    name=value``. Raises `SettingsError`."""
    typed: Any = text
    if key in Settings.model_fields and is_table(key):
        typed = {}
        for word in text.split():
            name, _, each = word.partition("=")
            if not (name and each):
                shown = MASK if is_secret(key) else repr(name)
                raise SettingsError(
                    f"{key}: {shown} is not a pair. Write name=value, with spaces between pairs."
                )
            typed[name] = each
    value = validate_value(key, typed)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, tuple) and value and all(isinstance(each, str) for each in value):
        return list(value)
    if isinstance(value, tuple):
        return [part for part in text.split(os.pathsep) if part]
    return typed


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
        options[table] = {**options.get(table, {}), name: value} if dot else value
    return options


def set_value(path: Path, key: str, value: Any) -> None:
    """Write a value made by `parse_value`. A value that the user writes into a project's file is
    trusted. Raises `SettingsError`."""
    table, dot, _ = key.partition(".")
    others_untrusted = bool(dot) and table in untrusted_settings(path, read_config(path))
    _write(path, key, value)
    untrusted = untrusted_settings(path, read_config(path))
    if table in untrusted and not others_untrusted:
        allow({path: {table: untrusted[table]}})


def add_rules(path: Path, rules: Sequence[str]) -> None:
    """Add rules for code to those in a configuration file. Raises `SettingsError`."""
    before = validate_value("approval_rules", read_config(path).get("approval_rules", ()))
    set_value(path, "approval_rules", [*before, *(rule for rule in rules if rule not in before)])


def allow(files: Mapping[Path, Mapping[str, Any]]) -> None:
    """Trust these values of a project's files from now on. Raises `SettingsError`."""
    write_text(trust_record(), add_trusted(files))


def unset(path: Path, key: str) -> bool:
    """Remove a value from the file; False if it was not there. Raises `SettingsError`."""
    table, dot, name = key.partition(".")
    inside = read_config(path).get(table)
    if inside is None or (dot and not (isinstance(inside, dict) and name in inside)):
        return False

    _write(path, key if dot and len(inside) > 1 else table, None)
    return True


def _write(path: Path, key: str, value: Any) -> None:
    """Write a value, or remove it if it is None."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    read_config(path)  # says what is wrong with it
    table, dot, name = key.partition(".")
    try:
        document = tomlkit.parse(read_text(path))
        values: MutableMapping[str, Any] = document
        if dot:
            if not isinstance(document.get(table), dict):
                document[table] = {}
            values, table = document[table], name
        if value is None:
            del values[table]
        else:
            values[table] = value
        text = tomlkit.dumps(document)
        tomllib.loads(text)
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

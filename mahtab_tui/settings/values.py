"""Settings by key: shown as text, and read from text with full validation."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import SecretStr, ValidationError

from mahtab_tui.settings.mcp_servers import MASK, WITHIN_URL
from mahtab_tui.settings.model import Settings, SettingsError, reason
from mahtab_tui.settings.sources import ValueOrigin, no_setting

THIS_SESSION = "this session"
NOT_SET = "(not set)"


class SettingEntry(NamedTuple):
    """One line of a list of settings: a setting, or one entry of a table."""

    key: str
    value: str
    place: ValueOrigin
    description: str


def entries(settings: Settings) -> list[SettingEntry]:
    """Return all settings in order, each entry of a table separately. Raises `SettingsError` if a
    source can no longer be used."""
    sources = settings.reloaded()
    found: list[SettingEntry] = []
    for key, field in Settings.model_fields.items():
        value, same = getattr(settings, key), getattr(settings, key) == getattr(sources, key)
        names = [f"{key}.{name}" for name in value] if isinstance(value, dict) else []
        for each in names or [key]:
            text = shown(value[each.partition(".")[2]]) if names else shown(value)
            found.append(
                SettingEntry(
                    each,
                    text,
                    settings.place_of(each) if same else ValueOrigin(THIS_SESSION),
                    field.description or "",
                )
            )
    return found


def shown(value: Any) -> str:
    """Return a value as text; a secret is masked."""
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return " ".join(f"{name}={shown(each)}" for name, each in value.items()) or NOT_SET
    if isinstance(value, tuple):
        return (os.pathsep if any(isinstance(each, Path) for each in value) else "; ").join(
            map(str, value)
        ) or NOT_SET
    if isinstance(value, list):
        return shown(shlex.join(value))
    return NOT_SET if value is None else WITHIN_URL.sub(MASK, str(value))


def is_table(key: str) -> bool:
    return get_origin(Settings.model_fields[key].annotation) is dict


def is_secret(key: str) -> bool:
    """Return whether a setting, or an entry of it, must not be shown."""
    return SecretStr in _types(Settings.model_fields[key.partition(".")[0]].annotation)


def choices(key: str) -> tuple[str, ...]:
    """Allowed values; empty if unrestricted."""
    kinds = _types(Settings.model_fields[key].annotation)
    if bool in kinds:
        return ("true", "false")
    return next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())


def _types(annotation: Any) -> tuple[Any, ...]:
    return (annotation, *get_args(annotation))


def validated(key: str, value: Any) -> Any:
    """Return the value with the setting's type; `key` may be an entry of a table ("keymap.help").
    Raises `SettingsError`."""
    table, dot, name = key.partition(".")
    if table not in Settings.model_fields:
        sentence = no_setting(Settings, table)
        raise SettingsError(sentence[0].upper() + sentence[1:])
    if dot and not (name and is_table(table)):
        raise SettingsError(
            f"{key}: {table} has no entries."
            if name
            else f"{key}: give the name of an entry after the dot."
        )
    draft = Settings.model_construct()
    try:
        setattr(draft, table, {name: value} if dot else value)
    except ValidationError as error:
        raise SettingsError(f"{key}: {reason(error)}.") from None
    return getattr(draft, table)[name] if dot else getattr(draft, table)


def written(key: str, text: str) -> Any:
    """Typed text as the value for a configuration file: a text, a number, a boolean, a list or a
    table of texts.

    A table is typed as ``name=value name=value``. Raises `SettingsError` if the setting does not
    accept it.
    """
    given: Any = text
    if "." not in key and key in Settings.model_fields and is_table(key):
        given = _table(key, text)
    value = validated(key, given)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, tuple) and value and all(isinstance(each, str) for each in value):
        return list(value)
    if isinstance(value, tuple):
        return [part for part in text.split(os.pathsep) if part]
    return given


def _table(key: str, text: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in text.split()]
    if wrong := next((name for name, sign, value in pairs if not (name and value)), None):
        raise SettingsError(
            f"{key}: {MASK if is_secret(key) else repr(wrong)} is not a pair. Write name=value, with spaces between pairs."
        )
    return {name: value for name, _, value in pairs}


def given_settings(pairs: list[str]) -> dict[str, Any]:
    """Return the values of ``--set key=value``, for `load_settings`. Raises `SettingsError`."""
    given: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign:
            raise SettingsError(f"{pair}: write key=value.")
        value = written(key.strip(), text.strip())
        table, dot, name = key.strip().partition(".")
        given[table] = {**given.get(table, {}), name: value} if dot else value
    return given

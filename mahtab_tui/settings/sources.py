"""Sources of settings and MCP servers: files, the environment, the command line, and which of them a
value comes from. Values of a project's files take effect only after the user trusts them."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
)

from mahtab_tui.settings.files import (
    ENV_FILE,
    SettingsError,
    Values,
    config_files,
    mcp_json_file,
    project_folder,
    read_config,
)
from mahtab_tui.settings.mcp_servers import read_mcp_json, starts_this_program

PREFIX = "MAHTAB_"
"""The beginning of the names of environment variables that set something."""
KEY_ENDING = "_api_key"
"""The end of the names of variables that hold the key of a service."""
COMMAND_LINE = "command line"
"""The origin of a value that the user gave when starting the program."""
DEFAULT = "default"
"""The origin of a value that nothing sets."""

REMOVED_KEYS = frozenset(
    {
        "agent_gone",
        "highlight",
        "hook_seconds",
        "hooks",
        "jupyter_token",
        "output_format",
        "suggestion_model",
        "viewer",
    }
)
"""Settings of earlier versions. Files that have them still load; `removed_settings` names them."""

_reported_lines: set[object] = set()
"""Bad lines of files that were reported already."""


class ValueOrigin(NamedTuple):
    """Where a value comes from."""

    text: str
    """The origin for a message: `COMMAND_LINE`, a variable, a file, or `DEFAULT`."""
    file: Path | None = None


def variable_name(key: str) -> str:
    """Return the environment variable of a setting."""
    return f"{PREFIX}{key.upper()}"


def describe_unknown_setting(settings_cls: type[BaseSettings], key: str) -> str:
    """Return that a setting does not exist, as a sentence in lower case."""
    if key in REMOVED_KEYS:
        return f"the setting {key} was removed."
    fields = settings_cls.model_fields
    similar = difflib.get_close_matches(key, fields, n=1)
    hint = f"Known keys: {', '.join(fields)}."
    if similar:
        hint = f"Did you mean {similar[0]}?"
    return f"there is no setting {key!r}. {hint}"


def removed_settings(settings_cls: type[BaseSettings]) -> Iterator[str]:
    """Yield a sentence for each file that names settings that are no longer there."""
    keys_by_file = {str(path): set(read_config(path)) for path in config_files(project_folder())}
    variables = DotEnvSettingsSource(settings_cls).env_vars
    keys_by_file[ENV_FILE] = {
        key for key in REMOVED_KEYS if variable_name(key).lower() in variables
    }
    for file, keys in keys_by_file.items():
        removed_keys = sorted(REMOVED_KEYS & keys)
        if removed_keys:
            yield (
                f"{file} sets {', '.join(removed_keys)}, which this program no longer knows;"
                " you can delete it there."
            )


def _report_bad_line(record: logging.LogRecord) -> bool:
    """Reword the warning of python-dotenv about a bad line, and drop it when it comes again."""
    bad_line = (Path(ENV_FILE).absolute(), record.args)
    record.msg = f"mahtab-tui: {ENV_FILE}, line %s: not NAME=value; the line is ignored."
    is_new = bad_line not in _reported_lines
    _reported_lines.add(bad_line)
    return is_new


logging.getLogger("dotenv.main").addFilter(_report_bad_line)


class SettingsFile(PydanticBaseSettingsSource):
    """A file with settings, which may be missing; as a source, it has only trusted ones."""

    def __init__(self, settings_cls: type[BaseSettings], path: Path) -> None:
        super().__init__(settings_cls)
        self.path = path
        self.origin = ValueOrigin(str(path), path)

    def __call__(self) -> Values:
        values = self.values()
        untrusted = self.choose_untrusted(values)
        return {key: value for key, value in values.items() if key not in untrusted}

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def values(self) -> Values:
        """Return everything that the file sets. Raises `SettingsError`."""
        raise NotImplementedError

    def choose_untrusted(self, values: Values) -> Values:
        """Return those of the file's values that the user has not trusted yet.

        Raises `SettingsError`.
        """
        # Most files set nothing, and then the first picture need not wait for the module.
        if not values:
            return {}
        from mahtab_tui.settings.trust import untrusted_settings

        return untrusted_settings(self.path, values)


class TomlFile(SettingsFile):
    """A configuration file: the project's, or the user's."""

    def values(self) -> Values:
        values: Values = {}
        for key, value in read_config(self.path).items():
            if key in REMOVED_KEYS:
                continue
            if key not in self.settings_cls.model_fields:
                problem = describe_unknown_setting(self.settings_cls, key)
                raise SettingsError(f"{self.origin.text}: {problem}")
            values[key] = value
        return values


class EnvFile(SettingsFile):
    """The file ``.env``: settings, and providers' keys under their usual names."""

    def __init__(
        self, settings_cls: type[BaseSettings], source: DotEnvSettingsSource | None = None
    ) -> None:
        super().__init__(settings_cls, project_folder() / ENV_FILE)
        self.origin = ValueOrigin(ENV_FILE)
        self._source = source or DotEnvSettingsSource(settings_cls)

    def values(self) -> Values:
        fields = self.settings_cls.model_fields
        values = {key: value for key, value in self._source().items() if key in fields}
        api_keys: Values = {}
        for name, value in self._source.env_vars.items():
            key = name.removeprefix(PREFIX.lower())
            is_ours = key != name
            if is_ours and key not in fields and key not in REMOVED_KEYS:
                problem = describe_unknown_setting(self.settings_cls, key)
                raise SettingsError(f"{self.origin.text}: {problem}")
            if not is_ours and value and name.endswith(KEY_ENDING):
                api_keys[name.removesuffix(KEY_ENDING)] = value
        if api_keys:
            values["api_keys"] = {**api_keys, **values.get("api_keys", {})}
        return values


class McpJsonFile(SettingsFile):
    """The project's ``.mcp.json``: servers with names that no other source uses."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, mcp_json_file())

    def __call__(self) -> Values:
        configured = self.current_state.get("mcp") or {}
        servers = super().__call__().get("mcp")
        if servers is None:
            return {}
        return {"mcp": {name: server for name, server in servers.items() if name not in configured}}

    def values(self) -> Values:
        servers: Values = {}
        for name, server in read_mcp_json(self.path).servers.items():
            if not starts_this_program(server):
                servers[name] = server
        if not servers:
            return {}
        return {"mcp": servers}


def settings_files(
    settings_cls: type[BaseSettings], env: DotEnvSettingsSource | None = None
) -> list[SettingsFile]:
    """Return the files with settings, strongest first. Raises `SettingsError`."""
    configs = (TomlFile(settings_cls, path) for path in config_files(project_folder()))
    return [EnvFile(settings_cls, env), *configs, McpJsonFile(settings_cls)]


class UntrustedSettings(NamedTuple):
    """A file of the project with values that the user has not trusted yet."""

    file: SettingsFile
    values: Values

    @property
    def path(self) -> Path:
        """The file."""
        return self.file.path

    @property
    def sentence(self) -> str:
        """Tells the user that the values are not used."""
        return (
            f"{self.path} sets {', '.join(self.values)}, which is not used until you trust it:"
            " run mahtab-tui config trust."
        )


def all_untrusted_settings(settings_cls: type[BaseSettings]) -> list[UntrustedSettings]:
    """Return the untrusted values of the project's files, strongest file first.

    Raises `SettingsError`.
    """
    files: list[UntrustedSettings] = []
    for file in settings_files(settings_cls):
        values = file.choose_untrusted(file.values())
        if values:
            files.append(UntrustedSettings(file, values))
    return files


def find_origin(
    settings_cls: type[BaseSettings], key: str, options: Mapping[str, Any]
) -> ValueOrigin:
    """Return where the effective value of a setting comes from. Raises `SettingsError`.

    Args:
        settings_cls: The class of the settings.
        key: The setting, or an entry of a table ("keymap.help").
        options: As for `load_settings`.
    """
    table, _, name = key.partition(".")

    def sets_key(values: Mapping[str, Any]) -> bool:
        value = values.get(table)
        if not name:
            return value is not None
        return isinstance(value, Mapping) and name in value

    if sets_key(options):
        return ValueOrigin(COMMAND_LINE)
    if sets_key(EnvSettingsSource(settings_cls)()):
        return ValueOrigin(variable_name(table))
    for file in settings_files(settings_cls):
        if sets_key(file()):
            return file.origin
    return ValueOrigin(DEFAULT)

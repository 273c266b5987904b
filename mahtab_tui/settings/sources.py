"""Sources of settings and MCP servers. Those of a project's files take effect only after the user
trusts them, except those that only change how things look or make the program more careful."""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
)

_VARIABLE = re.compile(r"\$\{(\w++)(?::-((?:[^}$]|\$(?!\{))*+))?\}")
_SECRET = re.compile("token|secret|key|pass|auth|credential|cookie", re.IGNORECASE)
MASK = "••••••••"
WITHIN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""A name and a password in an address."""
_SCHEMES = ("Bearer ", "Basic ", "Token ")


class McpServer(BaseModel):
    """An MCP server: a program that is started, or an address."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of the program, beside PATH, HOME and the like; it gets no others."""
    cwd: str | None = None
    url: str | None = Field(default=None, pattern=r"^(https?://|\$\{)")
    headers: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _no_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(
                "a server is a table: write [mcp.NAME] with command or url into the file"
            )
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either a command or a url")
        return self

    def __str__(self) -> str:
        return WITHIN_URL.sub(MASK, self.url or " ".join((self.command or "", *self.args)))

    def expanded(self) -> McpServer:
        """Replace ``${VARIABLE}`` and ``${VARIABLE:-default}``. Raises `LookupError` with a
        sentence."""
        return McpServer.model_validate(_expanded(self.model_dump()))

    def secrets(self) -> Iterator[str]:
        """Yield the values of headers and variables whose names look like those of secrets."""
        for name, value in (*self.env.items(), *self.headers.items()):
            if _SECRET.search(name):
                try:
                    value = _expand(value)
                except LookupError:
                    continue
                yield value
                for scheme in _SCHEMES:
                    if value.startswith(scheme):
                        yield value.removeprefix(scheme).strip()


def _expanded(value: Any) -> Any:
    if isinstance(value, str):
        return _expand(value)
    if isinstance(value, Mapping):
        return {name: _expanded(each) for name, each in value.items()}
    return [_expanded(each) for each in value] if isinstance(value, list | tuple) else value


def _expand(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        value = os.environ.get(found[1]) or found[2]
        if value is None:
            raise LookupError(f"The variable {found[1]} is not set in the environment.")
        return value

    return _VARIABLE.sub(replace, text)


def starts_this_program(server: Mapping[str, Any]) -> bool:
    """Tell whether a server is our own, as `mahtab-tui mcp install` writes it for other clients."""
    words = [str(server.get("command") or ""), *map(str, server.get("args") or ())]
    if os.path.basename(words[0]) == "mahtab-tui":
        return words[1:2] == ["mcp"]
    return words[-3:] == ["-m", "mahtab_tui", "mcp"]


PREFIX = "MAHTAB_"
ENV_FILE, MCP_JSON = ".env", ".mcp.json"
_KEY_ENDING = "_api_key"

COMMAND_LINE, DEFAULT = "command line", "default"

REMOVED = frozenset(
    "agent_gone highlight hooks hook_seconds jupyter_token output_format suggestion_model viewer".split()
)
"""Ignored in files, which `removed_settings` reports."""

_APPEARANCE = frozenset({"theme", "pictures"})


class SettingsError(Exception):
    """A setting that cannot be used; the message is a sentence."""


class ValueOrigin(NamedTuple):
    text: str
    """For a message: `COMMAND_LINE`, a variable, a file, or `DEFAULT`."""
    file: Path | None = None


# Paths and texts


def home_folder() -> Path:
    return Path.home() / ".mahtab"


def project_folder() -> Path:
    """Return the working directory. Raises `SettingsError` if it has been deleted since."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise SettingsError(
            "The folder in which the program was started no longer exists."
        ) from None


def config_files(project: Path) -> tuple[Path, Path]:
    """Return the configuration files, strongest first: the project's, the user's."""
    return (project / ".mahtab" / "config.toml", home_folder() / "config.toml")


def read_config(path: Path) -> dict[str, Any]:
    """Return the unchecked values of a configuration file. Raises `SettingsError`."""
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}.") from None


def read_text(path: Path) -> str:
    """Return the text of a configuration file; empty if there is none. Raises `SettingsError`."""
    try:
        if path.exists() and not path.is_file():
            raise SettingsError(f"{path}: not a file.")
        return path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: the file is not UTF-8 text.") from None
    except OSError as error:
        raise SettingsError(f"{path}: the file cannot be read: {error.strerror}.") from None


def variable_name(key: str) -> str:
    return f"{PREFIX}{key.upper()}"


def describe_unknown_setting(settings_cls: type[BaseSettings], key: str) -> str:
    if key in REMOVED:
        return f"the setting {key} was removed."
    known = settings_cls.model_fields
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(known)}."
    return f"there is no setting {key!r}. {hint}"


def removed_settings(settings_cls: type[BaseSettings]) -> Iterator[str]:
    """Yield a sentence for each file that names settings that are no longer there."""
    found = [(str(path), set(read_config(path))) for path in config_files(project_folder())]
    variables = DotEnvSettingsSource(settings_cls).env_vars
    found.append((ENV_FILE, {key for key in REMOVED if variable_name(key).lower() in variables}))
    for where, keys in found:
        if gone := sorted(REMOVED & keys):
            yield f"{where} sets {', '.join(gone)}, which this program no longer knows; you can delete it there."


class McpJson(NamedTuple):
    servers: dict[str, dict[str, Any]]
    problems: tuple[str, ...] = ()
    """Sentences; other programs use the file too, so nothing in it keeps this program from
    starting."""


def read_mcp_json(path: Path) -> McpJson:
    try:
        content = json.loads(read_text(path) or '{"mcpServers": {}}')
    except SettingsError as error:
        return McpJson({}, (str(error),))
    except (ValueError, RecursionError) as error:
        why = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        return McpJson({}, (f"{path}: not valid JSON{why}. Its servers are not used.",))
    named = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(named, dict):
        return McpJson({}, (f'{path}: there is no table "mcpServers", so no server is used.',))
    servers: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for name, definition in named.items():
        valid, why = _check_definition(definition)
        if why:
            problems.append(f"{path}: the server {name[:100]!r} is not used: {why}.")
        else:
            servers[name] = valid
    return McpJson(servers, tuple(problems))


def _check_definition(definition: Any) -> tuple[dict[str, Any], str]:
    """Return the known part of a definition, or the problem with it."""
    if not isinstance(definition, dict):
        return {}, "it is not a table"
    if definition.get("type", "stdio") not in ("stdio", "http", "streamable-http"):
        kind = str(definition["type"])[:100]
        return {}, f"its type {kind!r} is not supported; use http (streamable HTTP) or stdio"
    valid = {key: value for key, value in definition.items() if key in McpServer.model_fields}
    try:
        McpServer.model_validate(valid)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        return {}, f"{where}: {first_problem(error)}" if where else first_problem(error)
    return valid, ""


def first_problem(error: ValidationError) -> str:
    """Return the first problem, as the end of a sentence without its full stop."""
    text = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    return text[0].lower() + text[1:]


# Trust


def trust_record() -> Path:
    return home_folder() / "trusted.json"


def read_record() -> dict[str, dict[str, Any]]:
    """Return the digests of all trusted values, by file and key."""
    try:
        known = json.loads(trust_record().read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    known = known if isinstance(known, dict) else {}
    return {file: keys for file, keys in known.items() if isinstance(keys, dict)}


def trusted_digests(known: Mapping[str, Mapping[str, Any]], file: Path) -> Mapping[str, Any]:
    return known.get(_name(file), {})


def add_trusted(files: Mapping[Path, Mapping[str, Any]]) -> str:
    """Return the record as text, with these values of files added."""
    known = read_record()
    for file, values in files.items():
        digests = {key: value_digest(value) for key, value in values.items()}
        known[_name(file)] = {**trusted_digests(known, file), **digests}
    return json.dumps(known, indent=1) + "\n"


def value_digest(value: Any) -> str:
    """Return a hash that recognises a value, which may be a secret."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _name(file: Path) -> str:
    """Return the file with the real path of its project. The file itself may be a link, which the
    project could point anywhere."""
    project = file.parent.parent if file.parent.name == ".mahtab" else file.parent
    return str(Path(os.path.realpath(project)) / file.relative_to(project))


def untrusted_settings(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a configuration file that the user has not trusted yet; never any of the
    user's own file. Raises `SettingsError`."""
    project = project_folder()
    is_home = os.path.realpath(project) == os.path.realpath(Path.home())
    if path == config_files(project)[1] or is_home:
        return {}
    known = trusted_digests(read_record(), path)
    return {
        key: value
        for key, value in values.items()
        if key not in _APPEARANCE
        and (key, value) != ("approval", "ask")
        and known.get(key) != value_digest(value)
    }


# Files


_bad_lines: set[object] = set()


def _report_bad_line(record: logging.LogRecord) -> bool:
    """Reword the warning of python-dotenv about a bad line, and drop it when it comes again."""
    bad = Path(ENV_FILE).absolute(), record.args
    record.msg = f"mahtab-tui: {ENV_FILE}, line %s: not NAME=value; the line is ignored."
    is_new = bad not in _bad_lines
    _bad_lines.add(bad)
    return is_new


logging.getLogger("dotenv.main").addFilter(_report_bad_line)


class SettingsFile(PydanticBaseSettingsSource):
    """A file with settings, which may be missing; as a source, it has only trusted ones."""

    def __init__(self, settings_cls: type[BaseSettings], path: Path) -> None:
        super().__init__(settings_cls)
        self.path = path
        self.origin = ValueOrigin(str(path), path)

    def __call__(self) -> dict[str, Any]:
        values = self.values()
        untrusted = untrusted_settings(self.path, values)
        return {key: value for key, value in values.items() if key not in untrusted}

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def values(self) -> dict[str, Any]:
        """Return everything that the file sets. Raises `SettingsError`."""
        raise NotImplementedError


class TomlFile(SettingsFile):
    def values(self) -> dict[str, Any]:
        values = {key: each for key, each in read_config(self.path).items() if key not in REMOVED}
        for key in values:
            if key not in self.settings_cls.model_fields:
                why = describe_unknown_setting(self.settings_cls, key)
                raise SettingsError(f"{self.origin.text}: {why}")
        return values


class EnvFile(SettingsFile):
    """The file ``.env``: settings, and providers' keys under their usual names."""

    def __init__(
        self, settings_cls: type[BaseSettings], source: DotEnvSettingsSource | None = None
    ) -> None:
        super().__init__(settings_cls, project_folder() / ENV_FILE)
        self.origin = ValueOrigin(ENV_FILE)
        self._source = source or DotEnvSettingsSource(settings_cls)

    def values(self) -> dict[str, Any]:
        known = self.settings_cls.model_fields
        values = {key: value for key, value in self._source().items() if key in known}
        keys: dict[str, Any] = {}
        for name, value in self._source.env_vars.items():
            key = name.removeprefix(PREFIX.lower())
            if key == name:
                if value and name.endswith(_KEY_ENDING):
                    keys[name.removesuffix(_KEY_ENDING)] = value
            elif key not in known and key not in REMOVED:
                why = describe_unknown_setting(self.settings_cls, key)
                raise SettingsError(f"{self.origin.text}: {why}")
        return {**values, "api_keys": {**keys, **values.get("api_keys", {})}} if keys else values


class McpJsonFile(SettingsFile):
    """The project's ``.mcp.json``: servers with names that no other source uses."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, mcp_json_file())

    def __call__(self) -> dict[str, Any]:
        configured = self.current_state.get("mcp") or {}
        return {
            key: {name: server for name, server in servers.items() if name not in configured}
            for key, servers in super().__call__().items()
        }

    def values(self) -> dict[str, Any]:
        found = read_mcp_json(self.path).servers.items()
        servers = {name: server for name, server in found if not starts_this_program(server)}
        return {"mcp": servers} if servers else {}


def mcp_json_file() -> Path:
    return project_folder() / MCP_JSON


def settings_files(
    settings_cls: type[BaseSettings], env: DotEnvSettingsSource | None = None
) -> list[SettingsFile]:
    """Return the files with settings, strongest first. Raises `SettingsError`."""
    configs = (TomlFile(settings_cls, path) for path in config_files(project_folder()))
    return [EnvFile(settings_cls, env), *configs, McpJsonFile(settings_cls)]


class UntrustedSettings(NamedTuple):
    """A file of the project with values that the user has not trusted yet."""

    file: SettingsFile
    values: dict[str, Any]

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def sentence(self) -> str:
        return f"{self.path} sets {', '.join(self.values)}, which is not used until you trust it: run mahtab-tui config trust."


def all_untrusted_settings(settings_cls: type[BaseSettings]) -> list[UntrustedSettings]:
    """Return the untrusted values of the project's files, strongest file first. Raises
    `SettingsError`."""
    found = [
        UntrustedSettings(file, untrusted_settings(file.path, file.values()))
        for file in settings_files(settings_cls)
    ]
    return [each for each in found if each.values]


def find_origin(
    settings_cls: type[BaseSettings], key: str, options: Mapping[str, Any]
) -> ValueOrigin:
    """Return where the effective value of a setting, or of an entry of a table ("keymap.help"),
    comes from. options: as for `load_settings`."""
    table, _, name = key.partition(".")

    def has(values: Mapping[str, Any]) -> bool:
        value = values.get(table)
        return value is not None and (not name or (isinstance(value, Mapping) and name in value))

    if has(options):
        return ValueOrigin(COMMAND_LINE)
    if has(EnvSettingsSource(settings_cls)()):
        return ValueOrigin(variable_name(table))
    files = settings_files(settings_cls)
    return next((file.origin for file in files if has(file())), ValueOrigin(DEFAULT))

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
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
)

PREFIX = "MAHTAB_"
"""The beginning of the names of environment variables that set something."""
KEY_ENDING = "_api_key"
"""The end of the names of variables that hold the key of a service."""
ENV_FILE = ".env"
"""The project's file of environment variables."""
MCP_JSON = ".mcp.json"
"""The project's file of MCP servers, which other programs use, too."""

Values = dict[str, Any]
"""Values of settings by key, as a source has them: not checked."""

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

APPEARANCE_KEYS = frozenset({"theme", "pictures"})
"""Settings that a project may change without trust, because they only change how things look."""

MASK = "••••••••"
"""Shown instead of a secret."""
URL_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""A name and a password in an address."""
AUTHENTICATION_SCHEMES = ("Bearer ", "Basic ", "Token ")
"""What may stand before the secret in a header."""
_VARIABLE = re.compile(
    r"""
    \$\{
        (\w++)                                      # its name
        (?: :- ( (?: [^}$] | \$ (?!\{) )*+ ) )?     # a default, which has no variables in it
    \}
    """,
    re.VERBOSE,
)
"""A variable of the environment in a text: ``${NAME}`` or ``${NAME:-default}``."""
_USABLE_TYPES = ("stdio", "http", "streamable-http")
"""Types of servers in an ``.mcp.json`` that this program can use."""
_MAX_SHOWN_CHARS = 100
"""A message cuts longer names that come from a file."""
_SECRET_NAME = re.compile("token|secret|key|pass|auth|credential|cookie", re.IGNORECASE)
"""A part of the name of a header or a variable whose value is likely a secret."""

_reported_lines: set[object] = set()
"""Bad lines of files that were reported already."""


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
    def _refuse_text(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError(
                "a server is a table: write [mcp.NAME] with command or url into the file"
            )
        return value

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either a command or a url")
        return self

    def __str__(self) -> str:
        """Return the address or the command line, without passwords in addresses."""
        text = self.url or " ".join((self.command or "", *self.args))
        return URL_CREDENTIALS.sub(MASK, text)

    def expanded(self) -> McpServer:
        """Return the server with the values of variables: ``${NAME}``, ``${NAME:-default}``.

        Raises:
            LookupError: A variable is not set; the message is a sentence.
        """
        return McpServer.model_validate(_expand(self.model_dump()))

    def secrets(self) -> Iterator[str]:
        """Yield the values of headers and variables whose names look like those of secrets."""
        for name, value in (*self.env.items(), *self.headers.items()):
            if not _SECRET_NAME.search(name):
                continue
            try:
                secret = _expand_text(value)
            except LookupError:
                continue
            yield secret
            # A server may also repeat the secret without its scheme.
            for scheme in AUTHENTICATION_SCHEMES:
                if secret.startswith(scheme):
                    yield secret.removeprefix(scheme).strip()


def _expand(value: object) -> object:
    """Replace variables in all texts of a JSON value. Raises `LookupError`."""
    if isinstance(value, str):
        return _expand_text(value)
    if isinstance(value, Mapping):
        return {name: _expand(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_expand(item) for item in value]
    return value


def _expand_text(text: str) -> str:
    """Replace the variables of a text. Raises `LookupError`."""

    def replace(match: re.Match[str]) -> str:
        name: str = match[1]
        default: str | None = match[2]
        value = os.environ.get(name)
        # As in a shell, a default also stands for a variable that is set to nothing.
        if not value and default is not None:
            return default
        if value is None:
            raise LookupError(f"The variable {name} is not set in the environment.")
        return value

    return _VARIABLE.sub(replace, text)


def starts_this_program(server: Mapping[str, Any]) -> bool:
    """Return whether a server is our own, which `mahtab-tui mcp install` writes for other
    clients."""
    command = str(server.get("command") or "")
    args = [str(argument) for argument in server.get("args") or ()]
    if os.path.basename(command) == "mahtab-tui":
        return args[:1] == ["mcp"]
    return args[-3:] == ["-m", "mahtab_tui", "mcp"]


class SettingsError(Exception):
    """A setting that cannot be used; the message is a sentence."""


class ValueOrigin(NamedTuple):
    """Where a value comes from."""

    text: str
    """For a message: `COMMAND_LINE`, a variable, a file, or `DEFAULT`."""
    file: Path | None = None


# Paths and texts


def home_folder() -> Path:
    """Return the folder of the user's configuration and of all sessions."""
    return Path.home() / ".mahtab"


def file_copies_folder(session: str) -> Path:
    """Return the folder for the copies of files that a kernel changes, for undo.

    Args:
        session: The id of its session; empty if that is not saved.
    """
    name = f"session-{quote(session, safe='')}" if session else "unsaved"
    return home_folder() / "file-copies" / name


def project_folder() -> Path:
    """Return the working directory. Raises `SettingsError` if it has been deleted since."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise SettingsError(
            "The folder in which the program was started no longer exists."
        ) from None


class ConfigFiles(NamedTuple):
    """The configuration files, the strongest first. They need not exist."""

    project_file: Path
    user_file: Path


def config_files(project: Path) -> ConfigFiles:
    """Return the configuration files for a project's folder."""
    return ConfigFiles(
        project_file=project / ".mahtab" / "config.toml",
        user_file=home_folder() / "config.toml",
    )


def read_config(path: Path) -> Values:
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


class McpJson(NamedTuple):
    """The servers of an ``.mcp.json``."""

    servers: dict[str, Values]
    problems: tuple[str, ...] = ()
    """Sentences; other programs use the file too, so nothing in it keeps this program from
    starting."""


def read_mcp_json(path: Path) -> McpJson:
    """Read the servers that this program can use; other programs may define more."""
    try:
        content = json.loads(read_text(path) or '{"mcpServers": {}}')
    except SettingsError as error:
        return McpJson({}, (str(error),))
    except (ValueError, RecursionError) as error:
        reason = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        return McpJson({}, (f"{path}: not valid JSON{reason}. Its servers are not used.",))

    definitions = None
    if isinstance(content, dict):
        definitions = content.get("mcpServers")
    if not isinstance(definitions, dict):
        return McpJson({}, (f'{path}: there is no table "mcpServers", so no server is used.',))

    servers: dict[str, Values] = {}
    problems: list[str] = []
    for name, definition in definitions.items():
        try:
            servers[name] = _usable_part(definition)
        except SettingsError as error:
            visible_name = name[:_MAX_SHOWN_CHARS]
            problems.append(f"{path}: the server {visible_name!r} is not used: {error}.")
    return McpJson(servers, tuple(problems))


def _usable_part(definition: object) -> Values:
    """Return the part of a server's definition that this program uses.

    Raises:
        SettingsError: It cannot be used; the message is the end of a sentence.
    """
    if not isinstance(definition, dict):
        raise SettingsError("it is not a table")
    kind = str(definition.get("type", "stdio"))[:_MAX_SHOWN_CHARS]
    if kind not in _USABLE_TYPES:
        raise SettingsError(
            f"its type {kind!r} is not supported; use http (streamable HTTP) or stdio"
        )

    usable = {key: value for key, value in definition.items() if key in McpServer.model_fields}
    try:
        McpServer.model_validate(usable)
    except ValidationError as error:
        problem = first_problem(error)
        field = ".".join(map(str, error.errors()[0]["loc"]))
        if field:
            problem = f"{field}: {problem}"
        raise SettingsError(problem) from None
    return usable


def first_problem(error: ValidationError) -> str:
    """Return the first problem, as the end of a sentence without its full stop."""
    text = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    return text[0].lower() + text[1:]


# Trust


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
    """Return the name of a file in the record: the file with the real path of its project. The file
    itself may be a link, which the project could point anywhere."""
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


# Files


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
        untrusted = untrusted_settings(self.path, values)
        return {key: value for key, value in values.items() if key not in untrusted}

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def values(self) -> Values:
        """Return everything that the file sets. Raises `SettingsError`."""
        raise NotImplementedError


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


def mcp_json_file() -> Path:
    """Return the project's file of MCP servers. Raises `SettingsError`."""
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
    """Return the untrusted values of the project's files, strongest file first. Raises
    `SettingsError`."""
    files: list[UntrustedSettings] = []
    for file in settings_files(settings_cls):
        values = untrusted_settings(file.path, file.values())
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

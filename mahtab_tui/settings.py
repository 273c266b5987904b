"""Where things are on disk, and the one model of all settings.

Precedence: command line > ``MAHTAB_*`` environment > ``.env`` > the project's ``.mahtab/config.toml`` > ``~/.mahtab/config.toml`` > defaults.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

PACKAGE = Path(__file__).resolve().parent

ApprovalMode = Literal["ask", "auto"]
ReflectionMode = Literal["always", "on_error", "never"]


class SettingsError(Exception):
    """A setting that cannot be used; the message says which, where, and what is allowed."""


def resource_folder(name: str) -> Path:
    """A folder that ships with the program (`styles`, `skills`): inside the package when installed, beside it in a checkout."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def home_folder() -> Path:
    """Where sessions, history and configuration are kept: ``~/.mahtab``."""
    return Path.home() / ".mahtab"


def config_files(project: Path) -> tuple[Path, ...]:
    """The configuration files, the one that wins first."""
    return (project / ".mahtab" / "config.toml", home_folder() / "config.toml")


class Settings(BaseSettings):
    """All settings, validated."""

    model_config = SettingsConfigDict(env_prefix="MAHTAB_", env_file=".env", extra="ignore", validate_default=False)

    model: str | None = Field(None, description="Which model answers, as in claude, claude:opus, openai:gpt-5, demo, replay:FILE")
    reflection_model: str | None = Field(None, description="A cheaper model that checks whether a turn is complete")
    suggestion_model: str | None = Field(None, description="A cheap model that says how an input may go on; without it nothing is suggested")
    sub_model: str | None = Field(None, description="A cheaper model that answers on the parts of a search by rlm()")
    rlm_small: int = Field(20_000, ge=0, description="Characters up to which a search gives a text to the model as it is")
    rlm_ask_above: int = Field(50, ge=0, description="Parts that a search may hand down at once without asking")
    reflection: ReflectionMode = Field("always", description="When a turn is checked for completeness")
    max_turns: int = Field(5, ge=1, le=100, description="How often the model may run code for one question")
    model_timeout: float = Field(120.0, gt=0, description="Seconds without a sign of the model before it is given up")
    approval: ApprovalMode = Field("ask", description="Whether the model's code waits for the person")
    python: str | None = Field(None, description="The kernel's interpreter: a file, or a virtual environment's folder")
    reload: bool = Field(False, description="Load modules of the project anew before a cell when their file has changed")
    theme: str | None = Field(None, description="A theme's name")
    keymap: dict[str, str] = Field(default_factory=dict, description="Keys by the name of a command")
    output_format: Literal["ansi", "markdown", "plain"] = Field("ansi", description="How the answers of the MCP server look")
    highlight: bool = Field(True, description="Whether the MCP server's answers are in colour")
    viewer: Literal["auto", "file", "off"] = Field(
        "off", description="Whether the MCP server logs what is evaluated: in colour, as plain text, or not"
    )
    project: Path | None = Field(None, description="The folder that the MCP server works in")
    share: bool = Field(True, description="Whether agents of this machine's same user may join a session on the screen")
    agent_gone: Literal["continue", "stop"] = Field("continue", description="What becomes of a cell whose agent has gone away")
    skills_dir: Annotated[tuple[Path, ...], NoDecode] = Field((), description="Folders of skills; in the environment with : between them")

    code_dir: Path = Field(Path("."), description="The folder that search_code and read_file are held in")

    @field_validator("code_dir")
    @classmethod
    def _folder_there(cls, value: Path) -> Path:
        if not value.expanduser().is_dir():
            raise ValueError(f"{value} is not a folder")
        return value.expanduser()

    @field_validator("skills_dir", mode="before")
    @classmethod
    def _folders(cls, value: Any) -> Any:
        """One folder may stand for itself."""
        if isinstance(value, Path):
            value = str(value)
        return [part for part in value.split(os.pathsep) if part] if isinstance(value, str) else value

    @field_validator("skills_dir")
    @classmethod
    def _folders_there(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        folders = tuple(folder.expanduser() for folder in value)
        for folder in folders:
            if not folder.is_dir():
                raise ValueError(f"{folder} is not a folder")
        return folders

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        files = (TomlFile(settings_cls, path) for path in config_files(Path.cwd()))
        return (init_settings, env_settings, dotenv_settings, *files)


class TomlFile(PydanticBaseSettingsSource):
    """One configuration file; a missing one has no settings."""

    def __init__(self, settings_cls: type[BaseSettings], path: Path) -> None:
        super().__init__(settings_cls)
        self.path = path

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        """Not asked: `__call__` gives the whole file."""
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        values = read_config(self.path)
        for key in values:
            if key not in self.settings_cls.model_fields:
                near = difflib.get_close_matches(key, self.settings_cls.model_fields, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(self.settings_cls.model_fields)}."
                raise SettingsError(f"{self.path}, line {line_of(self.path, key)}: there is no setting {key!r}. {hint}")
        return values


def read_config(path: Path) -> dict[str, Any]:
    """The values of a configuration file, unchecked. Raises `SettingsError` where it cannot be read."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: this is not TOML: {error}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: the file is not UTF-8 text.") from None
    except OSError as error:
        raise SettingsError(f"{path}: the file cannot be read: {error.strerror}.") from None


def line_of(path: Path, key: str) -> int:
    """The line (from 1) on which a key stands in a configuration file, as near as a search finds it."""
    pattern = re.compile(rf"""^\s*(\[\s*)?["']?{re.escape(key)}["']?\s*[\]=.]""")
    lines = path.read_text("utf-8", errors="replace").splitlines()
    return next((number for number, line in enumerate(lines, 1) if pattern.match(line)), 1)


def load_settings(**given: Any) -> Settings:
    """The effective settings; `given` are the command line's, None where it said nothing. Raises `SettingsError`."""
    try:
        return Settings(**{key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        raise SettingsError(_sentence(error, given)) from None
    except ValueError as error:  # pydantic-settings: a variable of the environment that is not JSON where it must be
        raise SettingsError(f"The environment: {error}.") from None


def _sentence(error: ValidationError, given: dict[str, Any]) -> str:
    """Which key of which source is wrong, and what is allowed."""
    first = error.errors()[0]
    key = str(first["loc"][0])
    reason = str(first["msg"]).removeprefix("Value error, ")
    reason = reason[0].lower() + reason[1:]
    if given.get(key) is not None:
        return f"--{key.replace('_', '-')}: {reason}."
    for path in config_files(Path.cwd()):
        if key in read_config(path):
            return f"{path}, line {line_of(path, key)}: {key}: {reason}."
    return f"MAHTAB_{key.upper()} (environment or .env): {reason}."

"""Where things are on disk, and the one model of all settings.

Precedence: command line > ``MAHTAB_*`` environment > ``.env`` > the project's ``.mahtab/config.toml`` > ``~/.mahtab/config.toml`` > defaults.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, DotEnvSettingsSource, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from mahtab_tui.settings.sources import (
    COMMAND_LINE,
    ENV_FILE,
    PREFIX,
    EnvFile,
    HeldBack,
    SettingsError,
    TomlFile,
    ValueOrigin,
    all_held_back,
    config_files,
    env_file_line,
    home_folder,
    place_of,
    project_folder,
    variable_of,
)

__all__ = ["Settings", "SettingsError", "config_files", "home_folder", "load_settings", "resource_folder"]

PACKAGE = Path(__file__).resolve().parents[1]

_FIELD = re.compile(r'field "(?P<name>\w+)" from source "(?P<file>DotEnv)?')
"""So pydantic-settings tells of a variable that it cannot read."""
_OF_A_PROVIDER = ("_API_KEY", "_AUTH_TOKEN", "_OAUTH_TOKEN")
"""How the names of variables end that hold a provider's key, or a gateway's."""
_LONGEST = 200
"""Characters of a path in a sentence."""

ApprovalMode = Literal["ask", "auto"]
ReflectionMode = Literal["always", "on_error", "never"]
Provider = Literal["claude", "anthropic", "openai", "openrouter", "ollama"]
PictureMode = Literal["auto", "kitty", "sixel", "blocks"]


def resource_folder(name: str) -> Path:
    """A folder that ships with the program (`styles`, `skills`): inside the package when installed, beside it in a checkout."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


class Settings(BaseSettings):
    """All settings, validated."""

    # An assignment changes a setting of the session that runs; it is validated like the rest.
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=ENV_FILE,
        env_ignore_empty=True,
        extra="ignore",
        validate_default=False,
        validate_assignment=True,
        allow_inf_nan=False,
    )

    _given: dict[str, Any] = PrivateAttr(default_factory=dict)
    """What the command line has said."""
    _held_back: tuple[str, ...] = PrivateAttr(())
    _other_keys: tuple[str, ...] = PrivateAttr(())
    """Keys that are no setting, and secrets all the same: those held back, and the environment's own."""

    model: str | None = Field(None, description="Which model answers, as in claude, claude:opus, openai:gpt-5, demo, replay:FILE")
    reflection_model: str | None = Field(None, description="A cheaper model that summarises, and checks what ran where `reflection` wants that")
    suggestion_model: str | None = Field(None, description="A cheap model that says how an input may go on; without it nothing is suggested")
    sub_model: str | None = Field(None, description="A cheaper model that answers on the parts of a search by rlm()")
    provider: Provider | None = Field(None, description="Whose a model is that is named without its provider: anthropic:, where it says anthropic")
    api_keys: dict[str, SecretStr] = Field(
        default_factory=dict, description="Keys of providers by the provider's name; in .env as OPENAI_API_KEY and the like"
    )
    claude_api_key: bool = Field(
        False, description="Whether the claude program is given the environment's ANTHROPIC_API_KEY, which is then billed in place of your login"
    )
    rlm_max_depth: int = Field(3, ge=0, description="How deep the calls of a search may nest")
    rlm_max_turns: int = Field(10, ge=1, description="How often one call of a search may run code")
    rlm_max_calls: int = Field(200, ge=1, description="Model calls that a whole search may make")
    rlm_max_usd: float | None = Field(None, gt=0, description="US dollars that a whole search may cost")
    rlm_max_seconds: float | None = Field(None, gt=0, description="Seconds that a whole search may take")
    rlm_concurrency: int | None = Field(None, ge=1, description="Model calls of a search at a time; without it, what suits the model")
    rlm_small: int = Field(20_000, ge=0, description="Characters up to which a search gives a text to the model as it is")
    rlm_ask_above: int = Field(50, ge=0, description="Sub-calls that a whole search may make without asking")
    reflection: ReflectionMode = Field(
        "never", description="When a separate call checks what ran; otherwise the next answer does, which saves a call"
    )
    max_turns: int = Field(5, ge=1, le=100, description="How often the model may run code for one question")
    base_url: str | None = Field(
        None, pattern=r"^https?://", description="Where a service that is compatible with OpenAI's answers, for the models of openai:"
    )
    model_timeout: float = Field(120.0, gt=0, description="Seconds without a sign of the model before it is given up")
    max_history: int = Field(20, ge=1, description="Questions that the model is told as they were; of earlier ones it knows a summary")
    max_usd: float | None = Field(None, gt=0, description="US dollars that a session may cost: questions, checks, suggestions and searches")
    approval: ApprovalMode = Field("ask", description="Whether the model's code waits for the person")
    python: str | None = Field(None, description="The kernel's interpreter: a file, or a virtual environment's folder")
    reload: bool = Field(False, description="Load modules of the project anew before a cell when their file has changed")
    theme: str | None = Field(None, description="A theme's name")
    pictures: PictureMode = Field("auto", description="How pictures are drawn; auto: by what the terminal says that it has")
    keymap: dict[str, str] = Field(default_factory=dict, description="Keys by the name of a command")
    output_format: Literal["ansi", "markdown", "plain"] = Field(
        "plain", description="How the answers of the MCP server look; ansi: in colours, for people"
    )
    highlight: bool = Field(True, description="Whether the MCP server's answers are in colour")
    viewer: Literal["auto", "file", "off"] = Field(
        "off", description="Whether the MCP server logs what is evaluated: in colour, as plain text, or not"
    )
    project: Path | None = Field(None, description="The folder that the MCP server works in")
    share: bool = Field(True, description="Whether agents of this machine's same user may join a session on the screen")
    agent_gone: Literal["continue", "stop"] = Field("continue", description="What becomes of a cell whose agent has gone away")
    skills_dir: Annotated[tuple[Path, ...], NoDecode] = Field((), description="Folders of skills; in the environment with : between them")
    skills_budget: int = Field(60_000, ge=0, description="Characters of loaded skills that the model is told with every question")
    code_dir: Path = Field(Path("."), description="The folder that search_code and read_file are held in")

    @field_validator("code_dir")
    @classmethod
    def _folder_there(cls, value: Path) -> Path:
        return _folder(value)

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
        return tuple(map(_folder, value))

    def rlm_limits(self) -> dict[str, Any]:
        """What limits a search, by the names of `recursion.budget.limits_of`."""
        return {name.removeprefix("rlm_"): getattr(self, name) for name in type(self).model_fields if name.startswith("rlm_")}

    def model_access(self) -> dict[str, Any]:
        """What reaching a provider takes, by the names of `llm.providers.get_llm`."""
        keys = {name: key.get_secret_value() for name, key in self.api_keys.items()}
        return {"provider": self.provider, "base_url": self.base_url, "api_keys": keys, "claude_api_key": self.claude_api_key}

    def secrets(self) -> list[str]:
        """What nobody is to see, the longest first: a key may begin as another one does."""
        return sorted([*(key.get_secret_value() for key in self.api_keys.values()), *self._other_keys], key=len, reverse=True)

    def place_of(self, key: str) -> ValueOrigin:
        """Where a value comes from, or one entry of a table ("keymap.help"). Raises `SettingsError` where a file cannot be read any more."""
        return place_of(type(self), key, self._given)

    @property
    def held_back(self) -> tuple[str, ...]:
        """What the project's files set and the person has not trusted, so that it is not used: a sentence for each file."""
        return self._held_back

    def of_project(self, key: str) -> bool:
        """Whether the value is what a file of the project says, who may be anybody. Raises `SettingsError` as `place_of`."""
        place, (project, person) = self.place_of(key), config_files(project_folder())
        return place.text.startswith(ENV_FILE) or place.file == project != person

    def anew(self) -> Settings:
        """What the sources say now. Raises `SettingsError`."""
        return load_settings(**self._given)

    def change(self, key: str, value: Any) -> None:
        """Set a value for the time that the program runs. Raises `ValidationError`."""
        setattr(self, key, value)
        self._given.pop(key, None)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        assert isinstance(dotenv_settings, DotEnvSettingsSource)
        files = (TomlFile(settings_cls, path) for path in config_files(project_folder()))
        return (init_settings, env_settings, EnvFile(dotenv_settings), *files)


def _folder(path: Path) -> Path:
    """A folder that is there. Raises `ValueError`."""
    try:
        folder = path.expanduser()
        if folder.is_dir():
            return folder
    except (OSError, RuntimeError) as error:  # too long a name; nobody's home
        raise ValueError(f"{str(path)[:_LONGEST]} cannot be looked up: {getattr(error, 'strerror', None) or error}") from None
    raise ValueError(f"{folder} is not a folder")


def load_settings(**given: Any) -> Settings:
    """The effective settings; `given` are the command line's, None where it said nothing. Raises `SettingsError`."""
    try:
        settings = Settings(**{key: value for key, value in given.items() if value is not None})
        settings._given.update(given)
        found = all_held_back(Settings)
        settings._held_back = tuple(_checked(each).sentence for each in found)
        held_back = (key for each in found for key in each.values.get("api_keys", {}).values())
        environment = (key for name, key in os.environ.items() if name.endswith(_OF_A_PROVIDER))
        settings._other_keys = (*held_back, *environment)
        return settings
    except ValidationError as error:
        key = _key(error)
        place = place_of(Settings, key, given).text
        where = f"--{key.replace('_', '-')}" if place == COMMAND_LINE else place if place == variable_of(key) else f"{place}: {key}"
        raise SettingsError(f"{where}: {reason(error)}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{ENV_FILE}: the file is not UTF-8 text.") from None
    except OSError as error:
        raise SettingsError(f"{ENV_FILE}: the file cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise SettingsError("The environment or .env: a value is nested too deeply.") from None
    except ValueError as error:  # pydantic-settings: a variable of the environment that is not JSON where it must be
        raise SettingsError(_no_json(error)) from None


def _no_json(error: ValueError) -> str:
    found = _FIELD.search(str(error))
    if found is None:
        return f"The environment: {error}."
    variable = variable_of(found["name"])
    where = f"{env_file_line([variable])}: {variable}" if found["file"] else variable
    return f'{where}: this is not JSON, as in {{"name": "value"}}.'


def _key(error: ValidationError) -> str:
    """The setting that is wrong, or the entry of a table ("keymap.help")."""
    setting, *inside = error.errors()[0]["loc"]
    return ".".join([str(setting), *(each for each in inside[:1] if isinstance(each, str))])


def _checked(held: HeldBack) -> HeldBack:
    """Says what is wrong with a value also while it waits. Raises `SettingsError`."""
    draft = Settings.model_construct()
    for key, value in held.values.items():
        try:
            setattr(draft, key, value)
        except ValidationError as error:
            raise SettingsError(f"{held.place_of(_key(error))}: {_key(error)}: {reason(error)}.") from None
    return held


def reason(error: ValidationError) -> str:
    """What is wrong first, as the rest of a sentence without its full stop."""
    text = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    return text[0].lower() + text[1:]

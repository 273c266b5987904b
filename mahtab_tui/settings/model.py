"""The one model of all settings, and how they are loaded.

Precedence: command line > ``MAHTAB_*`` environment > ``.env`` > the project's
``.mahtab/config.toml`` > ``~/.mahtab/config.toml`` > defaults.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, Field, PrivateAttr, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from mahtab_tui.settings.acp_agents import AcpAgent
from mahtab_tui.settings.files import (
    ENV_FILE,
    SettingsError,
    config_files,
    file_copies_folder,
    first_problem,
    home_folder,
    mcp_json_file,
    project_folder,
)
from mahtab_tui.settings.mcp_servers import McpServer, read_mcp_json
from mahtab_tui.settings.sources import (
    COMMAND_LINE,
    PREFIX,
    UntrustedSettings,
    ValueOrigin,
    all_untrusted_settings,
    find_origin,
    removed_settings,
    settings_files,
    variable_name,
)

__all__ = ["SettingsError", "config_files", "file_copies_folder", "home_folder"]

PACKAGE = Path(__file__).resolve().parents[1]

_FIELD_IN_MESSAGE = re.compile(r'field "(\w+)"')
KEY_VARIABLE_ENDINGS = ("_API_KEY", "_AUTH_TOKEN", "_OAUTH_TOKEN")
"""Endings of the names of variables that hold a key."""
MAX_PATH_CHARS = 200
"""Characters of a path in a message."""

ApprovalMode = Literal["ask", "review", "auto"]
ReflectionMode = Literal["always", "on_error", "never"]
LoopMode = Literal["auto", "steps", "single"]
Provider = Literal[
    "claude", "anthropic", "openai", "openrouter", "llamacpp", "lmstudio", "vllm", "ollama"
]
McpOutputFormat = Literal["plain", "markdown", "ansi"]
PictureMode = Literal["auto", "kitty", "sixel", "blocks"]
NotificationMode = Literal["bell", "osc9", "osc777", "off"]
EditorKeys = Literal["standard", "vim", "vim-multiline"]

WAITING_TEXT = "mahtab waits for you"
CELL_ENDED_TEXT = "A cell in mahtab has ended"
NOTIFICATION_TEXTS = (WAITING_TEXT, CELL_ENDED_TEXT)
NOTIFICATION_SEQUENCES: dict[NotificationMode, str] = {
    "bell": "\x07",
    "osc9": "\x1b]9;{text}\x07",
    "osc777": "\x1b]777;notify;mahtab;{text}\x07",
    "off": "",
}
"""What a terminal gets, by the setting `notifications`."""


def resource_folder(name: str) -> Path:
    """Return a folder that ships with the program: inside the package when installed, beside it in
    a checkout."""
    installed = PACKAGE / name
    return installed if installed.is_dir() else PACKAGE.parent / name


def _check_folder(path: Path) -> Path:
    try:
        folder = path.expanduser()
        if folder.is_dir():
            return folder
    except (OSError, RuntimeError) as error:  # too long a name; nobody's home
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{str(path)[:MAX_PATH_CHARS]} cannot be found: {reason}") from None
    raise ValueError(f"{folder} is not a folder")


Folder = Annotated[Path, AfterValidator(_check_folder)]


class Settings(BaseSettings):
    """All settings. The settings screen, ``config`` and the manual show the descriptions."""

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

    _options: dict[str, Any] = PrivateAttr(default_factory=dict)
    """The settings from the command line."""
    _untrusted: tuple[str, ...] = PrivateAttr(())
    """A sentence for each file with values that are not used."""
    _other_keys: tuple[str, ...] = PrivateAttr(())
    """Keys of untrusted files and in the environment, which are secrets too."""

    model: str | None = Field(
        None,
        description="The model that answers: claude, claude:opus, openai:gpt-5, demo, replay:FILE; or an agent, as in acp:claude",
    )
    reflection_model: str | None = Field(
        None,
        description="A cheaper model for summaries, and for checking runs if `reflection` says so",
    )
    sub_model: str | None = Field(
        None, description="A cheaper model for the parts of a search by rlm()"
    )
    embedding_model: str | None = Field(
        None,
        description="A model for search by meaning: ollama:nomic-embed-text, openai:text-embedding-3-small",
    )
    provider: Provider | None = Field(
        None,
        description="The provider of a model named without one: with anthropic, claude-sonnet-4-5 means anthropic:claude-sonnet-4-5",
    )
    api_keys: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="API keys by the provider's name; in .env they are OPENAI_API_KEY and the like",
    )
    claude_api_key: bool = Field(
        False,
        description="Whether the claude program gets ANTHROPIC_API_KEY from the environment, which is then billed instead of your login",
    )
    rlm_max_depth: int = Field(
        1,
        ge=0,
        description="Max depth of calls; those at this depth run no code. The question is at depth 0",
    )
    rlm_max_turns: int = Field(20, ge=1, description="How often one call of a search may run code")
    rlm_max_calls: int = Field(200, ge=1, description="Model calls that a whole search may make")
    rlm_max_usd: float | None = Field(
        None, gt=0, description="US dollars that a whole search may cost"
    )
    rlm_max_seconds: float | None = Field(
        None, gt=0, description="Seconds that a whole search may take"
    )
    rlm_concurrency: int | None = Field(
        None,
        ge=1,
        description="Model calls that a search makes at once; if not set, what suits the model",
    )
    rlm_small: int = Field(
        20_000,
        ge=0,
        description="A search gives texts of up to this many characters to the model directly",
    )
    rlm_ask_above: int = Field(
        50, ge=0, description="Sub-calls that a search may make before it asks"
    )
    reflection: ReflectionMode = Field(
        "never",
        description="When a separate call checks a run; without it the next call answers from the output",
    )
    output_answers: bool = Field(
        False,
        description="Whether a short output of a single block ends the question, which saves a call",
    )
    loop: LoopMode = Field(
        "auto",
        description="How the model is led: steps for capable models; single tells small ones (up to 9 billion parameters) to compute at once, takes the short output of a question about data for the answer, and has what no output shows computed again; auto goes by the model's size",
    )
    max_turns: int = Field(
        40,
        ge=1,
        le=1_000,
        description="Steps with code of one question after which you are asked whether to go on",
    )
    return_pictures: bool = Field(
        True,
        description="Whether a model that can see gets the figures that its code draws, at most two a step; others get them in words",
    )
    base_url: str | None = Field(
        None,
        pattern=r"^https?://",
        description="The address of a service compatible with OpenAI's, for models named openai:",
    )
    model_timeout: float = Field(
        120.0, gt=0, description="Seconds to wait for a model that sends nothing"
    )
    max_answer_chars: int = Field(
        2_000_000,
        ge=1_000,
        description="Characters that an answer may have, with its thinking; a longer one is stopped",
    )
    max_history: int = Field(
        20, ge=1, description="Questions the model gets in full; earlier ones are summarised"
    )
    max_usd: float | None = Field(
        None,
        gt=0,
        description="US dollars a session may cost: questions, checks and searches",
    )
    approval: ApprovalMode = Field(
        "ask",
        description="Whether the model's code waits for you (ask), runs and then waits for you to keep or undo its changes (review), or just runs (auto)",
    )
    approval_rules: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description='Rules for the model\'s code, as in ["allow: read_only", "ask: open(*, \'w\')", "deny: os.system(*)"]; help rules says more',
    )
    python: str | None = Field(
        None,
        description="The kernel's Python: an interpreter, or the folder of a virtual environment",
    )
    kernel: str | None = Field(
        None,
        description='Where the kernel runs: "ssh://host", "command: docker exec -i box python3", "jupyter:NAME"; if not set, on this machine',
    )
    reload: bool = Field(
        False, description="Reload modules of the project before a cell when their file has changed"
    )
    undo_steps: int = Field(
        20, ge=0, le=1000, description="Cells that can be undone; 0 turns undo off"
    )
    undo_memory: int = Field(
        1024, ge=1, description="Megabytes of memory for undo; the oldest cells are dropped first"
    )
    file_undo: bool = Field(
        True,
        description="Whether undo also restores files in the working folder; sudo cannot work in cells then. Linux only",
    )
    file_undo_mb: int = Field(
        200, ge=0, description="Megabytes that a cell's files are copied up to, for undo"
    )
    witnessed_folders: Annotated[tuple[Folder, ...], NoDecode] = Field(
        (),
        description="Folders besides the working folder whose files undo restores; separated by : in the environment",
    )
    keep_namespace: bool = Field(
        True,
        description="Whether the variables of a saved session are saved too, and come back with it",
    )
    keep_namespace_mb: int = Field(
        1024,
        ge=1,
        description="Megabytes of variables saved per session; the largest are left out first",
    )
    keep_kernel: float = Field(
        12.0,
        ge=0,
        description="Hours a kernel keeps running after its screen was closed or killed; 0: it ends with the screen. Linux only",
    )
    screen_reader: bool = Field(
        False,
        description="Whether to open as `--linear=plain` does: without colours and redrawing, each message a line of its own",
    )
    theme: str | None = Field(None, description="A theme's name")
    pictures: PictureMode = Field(
        "auto", description="How pictures are drawn; auto: as well as the terminal can"
    )
    notifications: NotificationMode = Field(
        "bell",
        description="How you are told, while another window has the focus, that something waits for you or a long cell has ended; osc9 and osc777: by a notification, if the terminal knows this sequence",
    )
    keys: EditorKeys = Field(
        "standard",
        description="Keys of the editor; vim: Vi's, with Enter as usual; vim-multiline: Enter runs or sends only in normal mode",
    )
    keymap: dict[str, str] = Field(
        default_factory=dict,
        description="Keys by command name; `mahtab-tui help keys` lists the names",
    )
    project: Path | None = Field(None, description="The folder in which the MCP server works")
    mcp_output_format: McpOutputFormat = Field(
        "plain",
        description="How agents get values, output and tracebacks: as text (plain), in blocks of Markdown (markdown), or with their colours (ansi)",
    )
    mcp_highlight: bool = Field(
        False,
        description="Whether blocks of Markdown name their language, and ansi colours values and tracebacks",
    )
    share: bool = Field(
        True,
        description="Whether agents of the same user on this machine may join the session on the screen",
    )
    mention_last_session: bool = Field(
        True,
        description="Whether the first prompt of an embedded session mentions the conversation saved by save_last_session",
    )
    skills_dir: Annotated[tuple[Folder, ...], NoDecode] = Field(
        (), description="Folders of skills; separated by : in the environment"
    )
    skills_budget: int = Field(
        60_000, ge=0, description="Characters of loaded skills that may go with every question"
    )
    code_dir: Folder = Field(
        Path("."), description="The folder that search_code and read_file cannot leave"
    )
    mcp: dict[str, McpServer] = Field(
        default_factory=dict,
        description="MCP servers whose tools cells can call, by name; the project's .mcp.json adds others",
    )
    acp: dict[str, AcpAgent] = Field(
        default_factory=dict,
        description="Agents that can answer your questions, by name, for the model acp:NAME; `mahtab-tui help acp` says more",
    )

    @field_validator("approval_rules", mode="before")
    @classmethod
    def _split_rules(cls, value: object) -> object:
        from mahtab_tui.settings.approval_rules import parse_rule, split_rules

        rules = split_rules(value) if isinstance(value, str) else value
        if isinstance(rules, list | tuple):
            for rule in rules:
                if isinstance(rule, str):
                    parse_rule(rule)  # raises if the rule is wrong
        return rules

    @field_validator("skills_dir", "witnessed_folders", mode="before")
    @classmethod
    def _split_folders(cls, value: object) -> object:
        if isinstance(value, Path):
            value = str(value)
        if isinstance(value, str):
            return [folder for folder in value.split(os.pathsep) if folder]
        return value

    @field_validator("embedding_model")
    @classmethod
    def _require_provider(cls, value: str | None) -> str | None:
        if value is None:
            return None
        provider, _, model = value.partition(":")
        if not provider or not model:
            raise ValueError(
                "name the provider and the model, as in ollama:nomic-embed-text or openai:text-embedding-3-small"
            )
        return value

    def rlm_limits(self) -> dict[str, Any]:
        """Return the limits of a search for `search.limits.merge_limits`."""
        return {
            name.removeprefix("rlm_"): getattr(self, name)
            for name in type(self).model_fields
            if name.startswith("rlm_")
        }

    def model_access(self) -> dict[str, Any]:
        """Return what is needed to reach a provider, for `llm.providers.get_llm`."""
        keys = {name: key.get_secret_value() for name, key in self.api_keys.items()}
        return {
            "provider": self.provider,
            "base_url": self.base_url,
            "api_keys": keys,
            "claude_api_key": self.claude_api_key,
            "max_answer_chars": self.max_answer_chars,
            "agents": self.acp,
        }

    def secrets(self) -> list[str]:
        """Return all keys, the longest first, because one key may begin with another."""
        keys = [key.get_secret_value() for key in self.api_keys.values()]
        if self.kernel:
            keys += parse_qs(urlsplit(self.kernel).query).get("token", [])
        for server in self.mcp.values():
            keys += server.secrets()
        for agent in self.acp.values():
            keys += agent.secrets()
        # Not by pydantic's access to attributes, which takes longer than all the rest, because every
        # record is searched for them.
        keys += (self.__pydantic_private__ or {}).get("_other_keys", ())
        return sorted(keys, key=len, reverse=True)

    def origin(self, key: str) -> ValueOrigin:
        """Return where a value, or an entry of a table ("keymap.help"), comes from.

        Raises `SettingsError`.
        """
        return find_origin(type(self), key, self._options)

    @property
    def untrusted(self) -> tuple[str, ...]:
        """A sentence for each file with values that are not used."""
        return self._untrusted

    def is_from_project(self, key: str) -> bool:
        """Return whether the value comes from a file that anybody may have written.

        Raises `SettingsError`.
        """
        origin = self.origin(key)
        if origin.text.startswith(ENV_FILE):
            return True
        project_file, own_file = config_files(project_folder())
        # In the home folder, both are the same.
        return origin.file == project_file != own_file

    def reloaded(self) -> Settings:
        """Load the settings again from their sources. Raises `SettingsError`."""
        return load_settings(**self._options)

    def change(self, key: str, value: object) -> None:
        """Set a value until the program ends. Raises `ValidationError`."""
        setattr(self, key, value)
        self._options.pop(key, None)

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
        files = settings_files(settings_cls, dotenv_settings)
        return init_settings, env_settings, *files


def load_settings(**options: Any) -> Settings:
    """Return the effective settings.

    Args:
        **options: Settings from the command line; None if not given.

    Raises:
        SettingsError: A value is wrong, or a file cannot be read.
    """
    try:
        settings = Settings(**{key: value for key, value in options.items() if value is not None})
        settings._options.update(options)

        untrusted_files = all_untrusted_settings(Settings)
        for source in untrusted_files:
            _check_untrusted(source)
        settings._untrusted = (
            *(source.sentence for source in untrusted_files),
            *read_mcp_json(mcp_json_file()).problems,
            *removed_settings(Settings),
        )

        other_keys: list[str] = []
        for source in untrusted_files:
            other_keys += source.values.get("api_keys", {}).values()
        for name, value in os.environ.items():
            if name.endswith(KEY_VARIABLE_ENDINGS):
                other_keys.append(value)
        settings._other_keys = tuple(other_keys)
        return settings
    except ValidationError as error:
        key = _setting_key(error)
        place = find_origin(Settings, key, options).text
        if place == COMMAND_LINE:
            place = f"--{key.replace('_', '-')}"
        elif place != variable_name(key):
            place = f"{place}: {key}"
        raise SettingsError(f"{place}: {first_problem(error)}.") from None
    except (UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{ENV_FILE}: the file cannot be read: {error}.") from None
    except (ValueError, RecursionError) as error:  # a variable that is not JSON where it must be
        field = _FIELD_IN_MESSAGE.search(str(error))
        place = variable_name(field[1]) if field else "A variable or a line of .env"
        text = f'{place}: not valid JSON. Write it like {{"name": "value"}}.'
        raise SettingsError(text) from None


def _setting_key(error: ValidationError) -> str:
    """Return the setting with the first problem, or the entry of its table."""
    setting, *path = error.errors()[0]["loc"]
    if path and isinstance(path[0], str):
        return f"{setting}.{path[0]}"
    return str(setting)


def _check_untrusted(source: UntrustedSettings) -> None:
    """Check values that are not trusted yet, so that errors in them are reported too.

    Raises `SettingsError`.
    """
    draft = Settings.model_construct()
    for key, value in source.values.items():
        try:
            setattr(draft, key, value)
        except ValidationError as error:
            raise SettingsError(
                f"{source.path}: {_setting_key(error)}: {first_problem(error)}."
            ) from None

"""Agents of other programs that answer questions: what a definition may hold, and those that need
none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mahtab_tui.settings.mcp_servers import expand_variables, find_secrets
from mahtab_tui.system import safe_path

_KEY_NAME = re.compile(
    "(?:API|ACCESS|PRIVATE)_?KEY|TOKEN|SECRET|PASSW|PASSPHRASE|SSHPASS|CREDENTIAL|COOKIE"
    "|(?:^|_)(?:KEY|PAT|PASS|AUTH)(?:_|$)|_PWD$",
    re.IGNORECASE,
)
"""A part of the name of a variable whose value is likely a key."""
_LOGIN_IN_ADDRESS = re.compile(r"://(?:[^/@\s]+|[^/@\s:]*:[^@\s]{1,1000})@")
"""A part of an address that has a user's name, which may be a key, or a password in it."""
_WITHHELD_NAMES = ("CLAUDECODE", "MAHTAB_")
"""The beginnings of the names of variables by which Claude Code refuses to start in itself, and of
our settings, which may have keys in them."""


class AcpAgent(BaseModel):
    """A program that answers questions over the Agent Client Protocol."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: tuple[str, ...] = ()
    """The program and its arguments; empty for those in `KNOWN_AGENTS`."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables beside those of the environment, such as a key."""
    options: dict[str, str] = Field(default_factory=dict)
    """What is set when a session of it begins, by name, such as its mode."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_text(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("an agent is a table: write [acp.NAME] with command into the file")
        return value

    def __str__(self) -> str:
        """Return the command line and the options, without variables, which may be keys."""
        options = [f"{name}={value}" for name, value in self.options.items()]
        return " ".join((*self.command, *options))

    def environment(self) -> dict[str, str]:
        """Return all variables of the program.

        What looks like a key by its name, or is an address with a login, is left out; a key that
        looks like nothing of the kind is not. Raises `LookupError`, with a sentence, if a variable
        that is named in `env` is not set.
        """
        own_variables: dict[str, str] = expand_variables(self.env)
        inherited = {
            name: value for name, value in os.environ.items() if not _is_withheld(name, value)
        }
        return {**inherited, "PATH": safe_path(), **own_variables}

    def secrets(self) -> Iterator[str]:
        """Yield the values of variables whose names look like those of secrets."""
        return find_secrets(self.env)


def _is_withheld(name: str, value: str) -> bool:
    """Return whether a variable of the environment is not for agents."""
    if name.startswith(_WITHHELD_NAMES):
        return True
    is_limit = "MAX_" in name and name.endswith("_TOKENS")
    is_harmless = is_limit or name.startswith(("TOKENIZERS_", "SSH_AUTH_SOCK"))
    if _KEY_NAME.search(name) and not is_harmless:
        return True
    # Without its proxy, an agent reaches nothing.
    return not name.upper().endswith("_PROXY") and _LOGIN_IN_ADDRESS.search(value) is not None


class KnownAgent(NamedTuple):
    """An agent that needs no definition."""

    program: AcpAgent
    advice: str
    """How it is installed, as a sentence."""


KNOWN_AGENTS: Mapping[str, KnownAgent] = {
    # It would begin in a mode in which a model decides what is allowed, and guess the next question
    # by a further call.
    "claude": KnownAgent(
        AcpAgent(
            command=("claude-agent-acp",),
            env={"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"},
            options={"mode": "default"},
        ),
        "Install it with: npm install -g @agentclientprotocol/claude-agent-acp",
    ),
    "codex": KnownAgent(
        AcpAgent(command=("codex-acp",)),
        "Install it with: npm install -g @agentclientprotocol/codex-acp",
    ),
    "gemini": KnownAgent(AcpAgent(command=("gemini", "--acp")), "Install Gemini CLI."),
    "goose": KnownAgent(AcpAgent(command=("goose", "acp")), "Install Goose."),
    "opencode": KnownAgent(AcpAgent(command=("opencode", "acp")), "Install OpenCode."),
}
"""By name. What these programs do beyond the protocol is nowhere else."""


def find_agent(name: str, configured: Mapping[str, AcpAgent]) -> AcpAgent | None:
    """Return an agent as it is configured; None if there is no command for it.

    Args:
        name: Its name.
        configured: The agents of the settings by name, of which a known one needs no command.
    """
    known_agent = KNOWN_AGENTS.get(name)
    agent = configured.get(name, AcpAgent())
    if known_agent is None:
        return agent if agent.command else None
    changes: dict[str, Any] = {
        "env": {**known_agent.program.env, **agent.env},
        "options": {**known_agent.program.options, **agent.options},
    }
    if not agent.command:
        changes["command"] = known_agent.program.command
    return agent.model_copy(update=changes)

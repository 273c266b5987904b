"""From a model's name to a model."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mahtab_tui.llm.base import ModelError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

OnNotice = Callable[[str, str], None]
"""Takes a level ("info", "warning", "error") and a sentence."""


class _Package(NamedTuple):
    """A LangChain package that brings a provider's models."""

    module: str
    cls: str
    extra: str
    arguments: dict[str, Any]


_OPENROUTER = {"base_url": "https://openrouter.ai/api/v1"}
_PACKAGES = {
    "anthropic": _Package("langchain_anthropic", "ChatAnthropic", "anthropic", {}),
    "openai": _Package("langchain_openai", "ChatOpenAI", "openai", {"stream_usage": True}),
    "openrouter": _Package("langchain_openai", "ChatOpenAI", "openai", {"stream_usage": True, **_OPENROUTER}),
    "ollama": _Package("langchain_ollama", "ChatOllama", "ollama", {}),
}
KNOWN = "claude, claude:MODEL, anthropic:MODEL, openai:MODEL, openrouter:MODEL, ollama:MODEL, demo, replay:FILE"


def split_spec(spec: str) -> tuple[str, str]:
    """Provider and model of a name. Raises `ModelError` for an unknown one."""
    provider, _, model = spec.strip().partition(":")
    if provider.startswith("claude-") and not model:
        return "claude", provider
    if provider in ("claude", "demo") or (provider in (*_PACKAGES, "replay") and model):
        return provider, model
    raise ModelError(f"There is no model {spec!r}. Known are: {KNOWN}.")


def default_model() -> str:
    """``claude`` where the CLI is on the PATH, else ``demo``."""
    return "claude" if shutil.which("claude") else "demo"


def model_label(spec: str) -> str:
    """A short name for whoever speaks: the provider for those with one voice, else the model."""
    provider, _, model = spec.strip().partition(":")
    if provider.startswith("claude"):
        return "claude"
    return model.rpartition("/")[2] if provider in _PACKAGES and model else provider


def check_model(spec: str) -> None:
    """Find out early, without loading anything, whether a model can be had. Raises `ModelError`."""
    provider, model = split_spec(spec)
    if provider == "claude" and shutil.which("claude") is None:
        raise ModelError("The program `claude` is not on the PATH. Install Claude Code, or choose another model, as in --model demo.")
    if provider == "replay":
        from mahtab_tui.llm.replay_file import read_replay

        read_replay(Path(model))
    if provider in _PACKAGES and importlib.util.find_spec(_PACKAGES[provider].module) is None:
        raise _missing(_PACKAGES[provider])


def get_llm(spec: str, *, timeout: float | None = None, on_notice: OnNotice | None = None, cwd: Path | None = None) -> BaseChatModel:
    """A model by its name. Raises `ModelError` for one that is not known or cannot be had.

    timeout: seconds without a sign of it before it is given up. on_notice: told what the person should know (retries, billing).
    cwd: the folder that a model of the CLI's runs in; by default an empty private one.
    """
    provider, model = split_spec(spec)
    if provider == "claude":
        from mahtab_tui.llm.claude_cli import ChatClaudeCLI

        options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        return ChatClaudeCLI(model=model or None, on_notice=on_notice, cwd=cwd, **options)
    if provider == "demo":
        from mahtab_tui.llm.demo import ChatDemo

        return ChatDemo()
    if provider == "replay":
        from mahtab_tui.llm.replay import ChatReplay

        return ChatReplay.from_file(Path(model))
    return _packaged(_PACKAGES[provider], model, timeout)


def _packaged(package: _Package, model: str, timeout: float | None) -> BaseChatModel:
    try:
        module = importlib.import_module(package.module)
    except ImportError:
        raise _missing(package) from None
    arguments = dict(package.arguments)
    if timeout is not None and package.cls != "ChatOllama":
        arguments["timeout"] = timeout
    try:
        made: Any = getattr(module, package.cls)(model=model, **arguments)
    except Exception as error:  # the package's own checks: a missing key, a bad name
        raise ModelError(f"{package.extra}:{model} cannot be used: {str(error).splitlines()[0]}") from None
    return cast("BaseChatModel", made)


def _missing(package: _Package) -> ModelError:
    return ModelError(f"This model needs a package that is not installed: pip install {package.module.replace('_', '-')} genai-prices")

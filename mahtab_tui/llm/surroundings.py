"""What a model is told about the place where code runs."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType

from mahtab_tui.llm.prompt_sections import one_line

PACKAGES = tuple(
    "numpy pandas polars pyarrow duckdb scipy scikit-learn statsmodels xgboost lightgbm torch tensorflow jax matplotlib seaborn plotly altair"
    " openpyxl networkx sympy".split()
)
"""Packages that code about data may use, the most important first."""
_EXPECTED_PACKAGES = ("pandas", "numpy", "scipy", "scikit-learn", "statsmodels", "matplotlib")
"""Packages that models use without asking, so that those that are not installed are named."""
_MAX_PACKAGES = 16
"""Installed packages that are named."""
_VERSION_PARTS = 2
"""Numbers of a package's version that are named."""
_MAX_READ_CHARS = 4_000
"""Characters of a question in which words about files are looked for."""
_FILE_WORDS = re.compile(
    r"\b(?:files?|folders?|director(?:y|ies)|csv|tsv|json|jsonl|parquet|xlsx?|excel|sqlite|txt|logs?)\b|\w\.[a-z]\w{1,6}\b",
    re.IGNORECASE,
)
_REMOTE_NOTE = "Code runs on another machine, {host}. search_code, read_file and attached files are on the user's machine."


def render_surroundings(
    folder: str,
    python: str,
    host: str = "",
    packages: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Format where and when code runs.

    Args:
        folder: The working directory.
        python: The version of Python; empty if unknown.
        host: The other machine where code runs; empty for this one.
        packages: The versions of the installed packages among `PACKAGES`; empty if unknown.
    """
    sentences = [f"Date: {date.today():%A, %Y-%m-%d}."]
    if python:
        # The system of another machine is not known.
        system = "" if host else f" on {platform.system()}"
        sentences.append(f"Python {python}{system}.")
    if packages:
        sentences.append(_describe_packages(packages))

    lines = [f"Working directory: {folder}", " ".join(sentences)]
    if host:
        lines.append(_REMOTE_NOTE.format(host=host))
    return "\n".join(map(one_line, lines))


def _describe_packages(packages: Mapping[str, str]) -> str:
    """Return which packages are installed, and which of those that models expect are not.

    Args:
        packages: The versions by name.
    """
    installed: list[str] = []
    for name, version in list(packages.items())[:_MAX_PACKAGES]:
        short_version = ".".join(version.split(".")[:_VERSION_PARTS])
        installed.append(f"{name} {short_version}")
    sentence = f"Installed: {', '.join(installed)}"

    missing = [name for name in _EXPECTED_PACKAGES if name not in packages]
    if missing:
        sentence += f"; not: {', '.join(missing)}"
    return f"{sentence}."


def asks_about_files(question: str) -> bool:
    """Return whether a question may need the names of the files in the working directory."""
    return _FILE_WORDS.search(question[:_MAX_READ_CHARS]) is not None

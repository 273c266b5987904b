"""Describes the Claude Code conversations of a folder."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import Any

_MAX_TITLE_CHARS = 120


def load_claude_sessions(limit: int = 10) -> list[dict[str, Any]]:
    """Return the newest Claude Code conversations of the working directory: id, time, title, messages, path.

    limit: at most this many. Empty if there are none.
    Example: load_claude_sessions()[0]["title"].
    """
    folder = os.path.expanduser("~/.claude/projects/") + re.sub("[^A-Za-z0-9]", "-", os.getcwd())
    sessions: list[dict[str, Any]] = []
    for path in _newest_files(folder):
        if len(sessions) >= limit:
            break
        with suppress(OSError):  # a file that cannot be read
            sessions.append(_describe_session(path))
    return sessions


def _newest_files(folder: str) -> list[str]:
    """Return the conversation files of a folder, the newest first, without broken links."""
    dated_paths: list[tuple[float, str]] = []
    with suppress(OSError):  # there may be no folder
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if name.endswith(".jsonl") and os.path.isfile(path):
                dated_paths.append((os.path.getmtime(path), path))
    return [path for _, path in sorted(dated_paths, reverse=True)]


def _describe_session(path: str) -> dict[str, Any]:
    """Return the title, the length and the time of a session. Raises `OSError`."""
    title = ""
    latest_time = ""
    messages = 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
                kind = entry["type"]
                content = entry["message"]["content"]
            except (ValueError, LookupError, TypeError, RecursionError):
                continue
            if kind not in ("user", "assistant"):
                continue
            messages += 1
            latest_time = str(entry.get("timestamp") or latest_time)
            if isinstance(content, list):
                dict_parts = (part for part in content if isinstance(part, dict))
                content = " ".join(str(part.get("text", "")) for part in dict_parts)
            if not title and kind == "user":
                title = " ".join(str(content).split())[:_MAX_TITLE_CHARS]
    return {
        "id": os.path.splitext(os.path.basename(path))[0],
        "time": latest_time,
        "title": title,
        "messages": messages,
        "path": path,
    }

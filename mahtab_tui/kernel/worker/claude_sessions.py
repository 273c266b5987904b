"""Reads the user's conversations with Claude Code about this folder from disk."""

from __future__ import annotations

import json
import os
import re
from typing import Any

_TITLE = 120


def load_claude_sessions(limit: int = 10) -> list[dict[str, Any]]:
    """Return the newest Claude Code conversations of the working directory: id, time, title, messages, path.

    limit: at most this many. Empty if there are none.
    Example: load_claude_sessions()[0]["title"].
    """
    folder = os.path.join(
        os.path.expanduser("~"), ".claude", "projects", re.sub(r"[^A-Za-z0-9]", "-", os.getcwd())
    )
    try:
        paths = [
            os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jsonl")
        ]
        paths.sort(key=os.path.getmtime, reverse=True)
    except OSError:
        return []
    return [_described(path) for path in paths[:limit]]


def _described(path: str) -> dict[str, Any]:
    title, moment, messages = "", "", 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            entry = _entry(line)
            if entry is None or entry.get("type") not in ("user", "assistant"):
                continue
            messages += 1
            moment = str(entry.get("timestamp") or moment)
            if not title and entry["type"] == "user":
                title = " ".join(_words(entry).split())[:_TITLE]
    return {
        "id": os.path.splitext(os.path.basename(path))[0],
        "time": moment,
        "title": title,
        "messages": messages,
        "path": path,
    }


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _words(entry: dict[str, Any]) -> str:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""

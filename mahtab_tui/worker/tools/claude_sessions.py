"""Describes the Claude Code conversations of a folder."""

from __future__ import annotations

import json
import os
import re
from typing import Any

_MAX_TITLE_CHARS = 120


def load_claude_sessions(limit: int = 10) -> list[dict[str, Any]]:
    """Return the newest Claude Code conversations of the working directory: id, time, title, messages, path.

    limit: at most this many. Empty if there are none.
    Example: load_claude_sessions()[0]["title"].
    """
    folder = os.path.expanduser("~/.claude/projects/") + re.sub("[^A-Za-z0-9]", "-", os.getcwd())
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".jsonl")]
        paths = [os.path.join(folder, name) for name in names]
        paths.sort(key=os.path.getmtime, reverse=True)
    except OSError:
        return []
    return [_describe_session(path) for path in paths[:limit]]


def _describe_session(path: str) -> dict[str, Any]:
    title = ""
    moment = ""
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
            moment = str(entry.get("timestamp") or moment)
            if isinstance(content, list):
                dict_parts = (part for part in content if isinstance(part, dict))
                content = " ".join(str(part.get("text", "")) for part in dict_parts)
            if not title and kind == "user":
                title = " ".join(str(content).split())[:_MAX_TITLE_CHARS]
    return {
        "id": os.path.splitext(os.path.basename(path))[0],
        "time": moment,
        "title": title,
        "messages": messages,
        "path": path,
    }

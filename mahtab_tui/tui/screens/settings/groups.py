"""The groups of the settings screen, and the order in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

GROUPS: Mapping[str, Sequence[str]] = {
    "Models": (
        *(
            "model",
            "reflection_model",
            "suggestion_model",
            "sub_model",
            "embedding_model",
            "provider",
            "base_url",
        ),
        *("api_keys", "claude_api_key", "model_timeout"),
    ),
    "Questions": (
        "approval",
        "approval_rules",
        "reflection",
        "output_answers",
        "max_turns",
        "max_history",
        "max_usd",
        "skills_dir",
        "skills_budget",
        "code_dir",
    ),
    "Searches": (
        *("rlm_max_depth", "rlm_max_turns", "rlm_max_calls", "rlm_max_usd", "rlm_max_seconds"),
        *("rlm_concurrency", "rlm_small", "rlm_ask_above"),
    ),
    "Kernel": (
        "python",
        "kernel",
        "jupyter_token",
        "reload",
        "undo_steps",
        "undo_memory",
        "keep_namespace",
        "keep_namespace_mb",
        "keep_kernel",
    ),
    "Screen": ("theme", "pictures", "keymap"),
    "Agents": ("share", "agent_gone", "project", "output_format", "highlight", "viewer", "mcp"),
}

_PLACES = {
    key: (place, heading)
    for place, (heading, key) in enumerate(
        (heading, key) for heading, keys in GROUPS.items() for key in keys
    )
}


def group_of(key: str) -> str:
    """The group of a setting, or of an entry of a table."""
    return _PLACES.get(key.partition(".")[0], (0, "Others"))[1]


def order_of(key: str) -> int:
    """The place of a setting among the others; the entries of a table stay together."""
    return _PLACES.get(key.partition(".")[0], (len(_PLACES), ""))[0]

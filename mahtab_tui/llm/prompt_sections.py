"""The parts of a prompt that are set off by tags, so that no text from outside can pass for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mahtab_tui.bus.record_xml import escape_content, escape_tags
from mahtab_tui.bus.terminal_screen import escape_controls

STALE = "Outputs that may not hold any more, because a variable is different now:\n{cells}"

_SECTIONS = (
    "surroundings",
    "instructions",
    "skills",
    "loaded-skills",
    "mcp-servers",
    "earlier-conversation",
    "working-folder",
    "recent-activity",
    "stale-outputs",
    "attachments",
)
"""The tags of all sections."""
_NOTHING_NOW = "(none now)"
"""The content of a section that has become empty."""


def render_element(tag: str, content: str) -> str:
    """Put content between tags, each on a line of its own. The content is not escaped."""
    return f"<{tag}>\n{content}\n</{tag}>"


def escape_section(text: str) -> str:
    """Escape text from outside so that it neither forges nor ends a section or a record."""
    return escape_tags(escape_content(escape_controls(text)), *_SECTIONS)


def escape_sections(element: str) -> str:
    """Escape the tags of sections in a record, which could pass for one that was sent."""
    return escape_tags(element, *_SECTIONS)


def one_line(text: str) -> str:
    """Return text from outside as one line, with symbols for its control characters."""
    return escape_controls(text).replace("\n", " ")


def earlier_conversation(summary: str) -> str:
    """Return the section with the summary of the beginning of a conversation."""
    return render_element("earlier-conversation", escape_section(summary))


def render_context(activity: str, attachments: str = "", folder: str = "", stale: str = "") -> str:
    """Format what the model gets with a question.

    Args:
        activity: What the user did since the last question.
        attachments: The elements of the files that the user attached.
        folder: The names and sizes of the files in the working directory.
        stale: The cells whose output no longer holds, a line each.

    Returns:
        A section for each that is not empty.
    """
    if stale:
        stale = STALE.format(cells=escape_section(stale))
    texts = {
        "working-folder": escape_section(folder),
        "recent-activity": activity,
        "stale-outputs": stale,
        "attachments": attachments,
    }
    sections = [render_element(name, escape_sections(text)) for name, text in texts.items() if text]
    return "\n\n".join(sections)


def changed_sections(sections: Mapping[str, str], texts: Sequence[str]) -> str:
    """Format the sections that differ from their newest version in a conversation.

    Args:
        sections: The content of each section as it is now, by name; empty if there is none.
        texts: The messages of the conversation, oldest first.
    """
    changed: list[str] = []
    for name, text in sections.items():
        last_section = _last_section(name, texts)
        if not text and not last_section:
            continue
        content = escape_sections(escape_content(text or _NOTHING_NOW))
        section = render_element(name, content)
        if section != last_section:
            changed.append(section)
    return "\n\n".join(changed)


def _last_section(name: str, texts: Sequence[str]) -> str:
    """Return the newest version of a section; empty if there is none."""
    for text in reversed(texts):
        _, start_tag, following = text.rpartition(f"<{name}>\n")
        content, end_tag, _ = following.partition(f"\n</{name}>")
        if start_tag and end_tag:
            return render_element(name, content)
    return ""

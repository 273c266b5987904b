"""A session: one conversation over one namespace, with its kernel, bus, agent and store."""

from mahtab_tui.session.session import Session

__all__ = ["Session"]

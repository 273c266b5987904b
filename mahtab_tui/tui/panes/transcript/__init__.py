"""The transcript: all questions, answers, cells and notices, in order."""

from mahtab_tui.tui.panes.transcript.pane import TranscriptPane

__all__ = ["TranscriptPane"]

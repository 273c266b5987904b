"""The transcript: what everybody said, ran and got, in order."""

from mahtab_tui.tui.panes.transcript.pane import TranscriptPane

__all__ = ["TranscriptPane"]

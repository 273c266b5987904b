"""The spinner's frames."""

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_RATE = 10
"""Frames a second."""

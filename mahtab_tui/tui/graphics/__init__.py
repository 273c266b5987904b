"""Draws pictures: as half blocks, and by the terminal's own graphics."""

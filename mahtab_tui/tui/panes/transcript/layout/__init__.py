"""Draws entries as rows."""

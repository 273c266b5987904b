"""Rows of text on the screen, and the views that scroll over them."""

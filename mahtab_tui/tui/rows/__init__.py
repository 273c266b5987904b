"""Rows of text on the screen, and the views that scroll, find and select in them."""

"""Draws the calls of a search, for the pane with the tree and the screen of one call."""

"""Draws a search's calls, for the pane with the tree and the screen of one call."""

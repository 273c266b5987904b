"""The calls of a search as lines and words, for the pane with the tree and the screen of one call."""

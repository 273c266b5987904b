"""From entries to rows of the screen."""

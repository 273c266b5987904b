"""The linear interface: a session line by line, in the terminal's own scrollback."""

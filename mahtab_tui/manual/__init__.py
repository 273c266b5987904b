"""The manual: one Markdown page a topic, readable on a forge, in the program and by ``mahtab-tui
help``."""

"""The screen of all saved sessions."""

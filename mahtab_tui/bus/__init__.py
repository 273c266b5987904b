"""The message bus: every pane, the prompt and the store read the same tagged records."""

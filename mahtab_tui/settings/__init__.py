"""The settings: their model, the files they come from, what a project may set, and how one is
changed."""

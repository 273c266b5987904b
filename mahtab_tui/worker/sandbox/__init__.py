"""The inner side of a sandbox: Python that can only reach its text and the engine."""

"""The inner side of a sandbox: Python that can reach nothing but its text and the engine."""

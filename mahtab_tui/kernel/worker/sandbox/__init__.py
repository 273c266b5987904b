"""The kernel side with a sandbox's profile: Python that can reach nothing but its text and the engine."""

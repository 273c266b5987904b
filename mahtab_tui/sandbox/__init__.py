"""Where the code of a search runs: processes that can reach nothing but their text and the engine."""

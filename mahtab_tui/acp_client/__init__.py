"""Agents of other programs that answer in a session, over the Agent Client Protocol."""

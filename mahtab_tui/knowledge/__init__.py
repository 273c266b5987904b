"""What the session can look up: skills."""

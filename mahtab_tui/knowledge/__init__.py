"""Sources that the session can look up: skills, and the source of the project."""

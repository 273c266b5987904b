"""Whether searches find what is there: tasks with known answers, by prepared models of several
habits, and the same by other engines."""

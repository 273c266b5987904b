"""The transcript: all questions, answers, cells and notices, in order."""

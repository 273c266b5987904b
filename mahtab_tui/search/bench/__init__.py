"""Tasks with known answers, which tell whether searches with a model work."""

"""Single values: read without running their code, in one line, laid out, and as pictures."""

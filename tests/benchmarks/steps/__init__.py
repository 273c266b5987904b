"""Tasks that need several steps, played by whoever serves a model; their records are tests of the
loop (`tests/integration/test_steps.py`)."""

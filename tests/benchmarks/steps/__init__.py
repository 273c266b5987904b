"""Tasks that need several steps, done by the model of any server; the recorded replies are tests of
the loop (`tests/integration/test_steps.py`)."""

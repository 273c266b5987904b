"""Completion, signatures and help at the cursor; loaded on first use."""

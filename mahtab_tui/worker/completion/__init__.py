"""Completion, signatures and help at the cursor."""

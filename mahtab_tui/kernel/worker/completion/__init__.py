"""Completion, signatures and help for what stands at the cursor; loaded when it is first asked for."""

"""All settings on a screen of their own."""

"""Sessions that an editor drives over the Agent Client Protocol."""

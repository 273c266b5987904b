"""A kernel that outlives its screen: the holder beside it, its spool, and what a new host must be
told."""

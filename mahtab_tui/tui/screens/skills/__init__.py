"""The skills: finding one, reading it, loading and unloading it, writing one."""

"""The functions that every namespace has, and the tools of servers."""

"""Conversations of fifteen questions whose definitions are built, changed, supposed otherwise and
taken back, as in LongDS; pandas computes the right answers, and those under an outdated
definition."""

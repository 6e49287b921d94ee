"""A solution under tools that look at it: profilers say why it is slow, sanitizers what it does wrong."""

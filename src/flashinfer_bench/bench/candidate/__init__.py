"""The process that runs one callable, a solution or the reference, and times it."""

"""The contract for training loops in the forms of other people's libraries; each file needs its own extra."""

"""What a process with somebody's code may do, and how that is put in force."""

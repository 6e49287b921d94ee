"""Other people's problems: KernelBench's files brought here, and its candidates judged and timed by our engine."""

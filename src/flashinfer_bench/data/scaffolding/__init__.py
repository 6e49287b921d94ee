"""A definition and its workloads, drafted from a function that was run on examples."""

"""A small agent that asks a language model for kernels and keeps those that hold on workloads it never saw."""

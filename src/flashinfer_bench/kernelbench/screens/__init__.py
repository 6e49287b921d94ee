"""What the commands for KernelBench show."""

"""Commands that bring and judge problems of KernelBench, one module each."""

"""Tools, prompts and a small agent for programs that write kernels."""

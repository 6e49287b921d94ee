"""`flashinfer-bench import sol-execbench` and `export sol-execbench`, one module each."""

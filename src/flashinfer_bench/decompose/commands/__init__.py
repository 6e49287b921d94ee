"""Commands of `flashinfer-bench decompose`, one module each."""

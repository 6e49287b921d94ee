"""Small language models of the library `transformers`, and kernels written by hand that know none of them."""

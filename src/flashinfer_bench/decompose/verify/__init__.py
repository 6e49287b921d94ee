"""Whether a decomposition, made by anyone, is the model it claims to be."""

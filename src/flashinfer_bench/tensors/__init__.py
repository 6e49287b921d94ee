"""From names and shapes to memory; torch is imported inside the functions that need it."""

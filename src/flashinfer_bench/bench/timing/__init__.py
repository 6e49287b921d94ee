"""How fast is it? Clocks, and what samples say."""

"""One module per way to turn sources into a callable; none knows another."""

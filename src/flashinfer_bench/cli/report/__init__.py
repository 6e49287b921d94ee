"""Commands that look at recorded traces: `report` and all below it."""

"""Commands that make, check, bring in and hand on datasets."""

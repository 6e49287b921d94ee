"""Every registered architecture of a library, tiny and with random weights, taken apart and verified."""

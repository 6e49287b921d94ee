"""Commands of the contract for training loops."""

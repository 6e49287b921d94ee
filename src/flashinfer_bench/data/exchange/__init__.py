"""Datasets come from elsewhere, go elsewhere, and are laid together."""

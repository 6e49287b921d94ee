"""A dataset as one static site: values in, pages out; written whole, or not at all."""

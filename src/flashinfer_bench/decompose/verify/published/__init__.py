"""Decompositions that others have published: files of one model each, in a folder for each level, that call nobody."""

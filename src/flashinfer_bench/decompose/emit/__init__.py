"""A tree over a trace becomes files: Python sources, a description of the tree, a dataset."""

from flashinfer_bench.decompose.emit.write import WrittenDataset, write

__all__ = ["WrittenDataset", "write"]

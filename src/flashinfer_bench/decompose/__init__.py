"""A PyTorch model becomes a tree of layers, fusions and kernels, verified and ready to be benchmarked."""

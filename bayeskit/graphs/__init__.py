"""PyTensor graphs: ask, rewrite, differentiate, run."""

"""Data that come in chunks: what each adds to a log joint density, reduced to sums that can be added up."""

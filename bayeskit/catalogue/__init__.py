"""What the files of the catalogue share: options, kernels, priors, starting points."""

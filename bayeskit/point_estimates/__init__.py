"""Points instead of distributions: EM, the mode of the posterior, type-II maximum likelihood."""

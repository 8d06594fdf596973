"""Which coefficients of a linear model: all of its submodels, from one matrix of cross products."""

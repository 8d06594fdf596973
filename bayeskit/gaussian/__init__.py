"""Linear-Gaussian algebra: the blocks of variables in which a log density is quadratic."""

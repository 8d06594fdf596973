"""Models against each other: evidence, Bayes factors, predictive criteria, averages, and what they rest on."""

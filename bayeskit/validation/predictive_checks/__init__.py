"""Data replicated from the posterior, or from the prior, beside the observed: statistics, sentences, pictures."""

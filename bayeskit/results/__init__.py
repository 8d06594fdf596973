"""What comes back: plans, evidence, posteriors, marginals."""

"""Variables whose entries are independent given the rest: each integrated by itself, numerically."""

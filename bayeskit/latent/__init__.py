"""A latent Gaussian under other data: its conditional mode, its Gaussian approximation, and what corrects for that."""

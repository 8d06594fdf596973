"""Plain PyMC models whose posterior is known exactly or to quadrature, for samplers to be tried on."""

"""Estimators of the log evidence, for posteriors whose evidence neither a closed form nor quadrature gives."""

"""A log density as sums over rows: taken apart, added up by key, and written as a graph again."""

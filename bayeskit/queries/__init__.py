"""What is asked of a posterior, and of several."""

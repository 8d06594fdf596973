"""Posteriors that go on as data arrive, and posteriors of different rows brought together."""

"""The rows of the table of models with known answers, one family a file; ``cases.py`` puts them together."""

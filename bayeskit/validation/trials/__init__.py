"""Samplers on trial: each against every reference posterior, and one scoreboard."""

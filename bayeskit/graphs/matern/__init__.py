"""Matérn processes on the line, by way of their states: density and gradient in time linear in the points."""

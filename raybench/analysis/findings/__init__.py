"""Findings: conditions of a run that may have changed its time or what it learned, each declared once."""

"""What an unknown program has printed: its clock, its epochs and its metrics. Nothing is run here."""

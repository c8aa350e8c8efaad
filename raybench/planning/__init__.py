"""Planning of a grid: its cells, the nodes that can run them, and the missing trials."""

"""From a grid file to a plan: cells, the nodes that can run them, and the trials that are still missing."""

"""Reports of a grid: text for a terminal, HTML, JSON and figures."""

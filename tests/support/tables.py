"""Made-up results as CSV files."""

import csv


def write_csv(path, rows):
    """Write rows, each a map of its columns; those that a row lacks are empty in it."""
    rows = list(rows)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        table.writeheader()
        table.writerows(rows)

"""How trials reach their machines: in this process, or fanned out by Ray Tune. Light to import: Ray is not."""

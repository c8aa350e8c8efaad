"""The canary: a small fixed job that reveals changes of a machine's speed."""

"""Results of a grid on disk: the journal, attempts at trials, timing rules, and the columns of tables."""

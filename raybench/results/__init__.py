"""Results of a grid on disk: files of attempts, timing rules, and the columns of tables."""

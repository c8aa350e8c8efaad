"""Results of a grid on disk: attempt files and executions, and the table of runs that is made of them."""

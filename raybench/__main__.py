"""`python -m raybench`, where the script is not on the path."""

from raybench.cli import main

main()

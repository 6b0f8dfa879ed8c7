"""`python -m emphatic` is the `emphatic` command."""

from emphatic.cli import main

main()

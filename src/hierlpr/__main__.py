"""``python -m hierlpr``: the command line."""

from hierlpr.cli import main

if __name__ == "__main__":
    main(prog_name="hierlpr")

"""What every room may use: checks of arguments, names loaded late."""

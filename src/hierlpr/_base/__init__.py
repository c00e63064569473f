"""What every room may use: checks of arguments, names loaded late."""

import os

AnyPath = str | os.PathLike[str]

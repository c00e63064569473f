"""What hierlpr raises: every message says what is wrong, where, and what to do."""


class HierlprError(ValueError):
    """Bad input. The base of every error that hierlpr raises on purpose."""


class HierarchyError(HierlprError):
    """The label hierarchy is not a directed acyclic graph of named labels."""


class DataError(HierlprError):
    """Scores, truth or LPRs do not fit the hierarchy or hold values they cannot have."""


class FileError(HierlprError):
    """A file cannot be read as what it claims to be."""


class HierlprWarning(UserWarning):
    """The result is valid, but something about it needs attention."""


class UnreachableWarning(HierlprWarning):
    """No cutoff reaches the target; `cutoff_.reason` says so too."""

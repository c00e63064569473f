"""The HierLPR paper: its algorithms as printed, its LPR estimators, and its studies run again."""

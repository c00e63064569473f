"""Block scores and truth -> a cutoff -> calls closed upward."""

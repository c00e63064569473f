"""Settings shared by all tests."""

from hypothesis import settings

# No test asserts a time: compilation and busy machines make single runs slow.
settings.register_profile("hierlpr", deadline=None)
settings.load_profile("hierlpr")

"""A complete small workspace for each test that damages one."""

from tests.test_damage import made, project  # noqa: F401 - fixtures of all tests in this folder

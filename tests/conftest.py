"""Property tests: the same examples on every run, so that a failure can be reproduced; `make fuzz` tries new ones.

There is no deadline: the time of one example says more about a busy machine than about the code. Nothing waits until it
is on the disk: that protects from a power failure, which no test can cause, and takes a sixth of the time of a stage.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("searching", derandomize=False, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield

"""Property tests: the same examples on every run, so that a failure can be reproduced; `make fuzz` tries new ones.

There is no deadline: the time of one example says more about a busy machine than about the code.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("searching", derandomize=False, deadline=None)
settings.load_profile("fixed")

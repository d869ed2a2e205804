"""How property tests look for counter-examples: the same ones on every run, or new ones each time.

A run that fails must fail again for whoever looks into it, so the default is fixed. `make fuzz` searches on. How long
examples take to draw says more about a busy machine than about a test, so that is no failure.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("fixed", derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("searching", derandomize=False)
settings.load_profile("fixed")

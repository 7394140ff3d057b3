from __future__ import annotations

from hypothesis import HealthCheck, settings

# How fast a machine is, and what else it does, is not what property tests are about.
settings.register_profile("drakit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("drakit")

"""The scheduler of an embedded cluster: `Scheduler(SchedulerConfig())` is one life of it."""

"""Reading and checking KubeSchedulerConfiguration with upstream's strictness and words."""

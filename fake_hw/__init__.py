"""Fake GPU hardware as a sysfs and /dev tree under a root prefix."""

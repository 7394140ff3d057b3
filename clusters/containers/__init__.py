"""The container contract of all tiers: what a runtime is asked for, what containers run, what they log."""

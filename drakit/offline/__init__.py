"""What a cluster would do, without one: its objects from files or an API server, its rules from embedded components."""

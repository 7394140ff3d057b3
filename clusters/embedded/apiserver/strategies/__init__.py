"""What each kind does to its objects before they are stored."""

"""Reports: terminal, JSON, JUnit."""

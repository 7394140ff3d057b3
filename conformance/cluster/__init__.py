"""What suites on whole clusters work with: a bench with Pods and claims, and a driver of the kit."""

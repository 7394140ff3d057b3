"""What kubectl explain shows beside names and types: facts of the API and our own words."""

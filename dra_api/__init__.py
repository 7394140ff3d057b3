"""Objects of the resource.k8s.io API: quantity, semver, decoding, defaulting, validation, conversion, wire forms."""

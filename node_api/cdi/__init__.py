"""Container Device Interface specs: model, validation, directory cache, resolution."""

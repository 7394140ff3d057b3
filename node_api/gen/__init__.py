"""Code generated from node_api/proto by `python -m node_api.generate`; never edited by hand."""

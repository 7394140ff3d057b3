"""The allocation suite: from claim to container on a whole cluster."""

"""What plugins and the scheduling cycle share: statuses, cluster events, nodes with their pods, extension points."""

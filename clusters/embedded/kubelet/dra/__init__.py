"""The part of a kubelet that has drivers prepare claims, and keeps what they answered."""

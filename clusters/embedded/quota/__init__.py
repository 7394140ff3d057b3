"""What objects count as against ResourceQuotas; admission and the controller share it.

Source: kubernetes v1.37.2 `pkg/quota/v1`, apiserver v0.37.2 `pkg/quota/v1`.
"""

"""The canary of trials without a framework; their training loop is the user's."""

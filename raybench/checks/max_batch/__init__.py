"""The largest batch that fits into a device's memory."""

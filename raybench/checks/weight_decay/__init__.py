"""The weight-decay check: ten engine steps compared with the decay rule's closed form."""

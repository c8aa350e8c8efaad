"""The weight-decay check: ten steps of the real engine against the closed form of the decay rule."""

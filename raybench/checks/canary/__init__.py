"""The canary: a small fixed job that shows whether a machine's speed has changed during a grid."""

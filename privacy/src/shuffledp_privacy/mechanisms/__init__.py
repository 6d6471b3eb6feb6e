"""The privacy analyses of the mechanisms, each one class in one file of this folder."""

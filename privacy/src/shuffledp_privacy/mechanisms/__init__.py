"""The privacy analyses of the mechanisms: one class in one file each, found by this folder."""

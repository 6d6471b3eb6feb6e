"""Several rounds on the same people: composition, subsampling and privacy filters (C1 to C7, C12 to C17)."""

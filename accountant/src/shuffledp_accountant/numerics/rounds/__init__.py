"""Several rounds on the same people: composition and subsampling (C1 to C7, C12)."""

"""The privacy ledger: what each population was charged, exactly once, whatever crashes."""

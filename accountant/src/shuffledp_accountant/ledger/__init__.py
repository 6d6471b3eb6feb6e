"""The privacy ledger: charges of each population, each exactly once, whatever crashes."""

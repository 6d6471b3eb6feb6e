"""The privacy ledger: each population's charges, exactly once each, despite crashes."""

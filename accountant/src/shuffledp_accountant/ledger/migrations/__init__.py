"""The ledger's schema, revision by revision (alembic); applied when the ledger is opened."""

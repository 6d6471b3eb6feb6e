"""Alembic's entry point: runs the migrations inside the transaction that the ledger opened."""

from __future__ import annotations

from alembic import context

from shuffledp_accountant.ledger.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()

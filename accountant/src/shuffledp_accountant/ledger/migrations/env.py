"""What alembic runs: the migrations, on the connection and inside the transaction that the ledger opened."""

from __future__ import annotations

from alembic import context

from shuffledp_accountant.ledger.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()

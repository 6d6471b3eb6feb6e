"""Creates the tables of populations and charges."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "populations",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "charges",
        sa.Column("round_id", sa.String(64), primary_key=True),
        sa.Column("population", sa.String(255), sa.ForeignKey("populations.name"), nullable=False),
        sa.Column("entry", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("mechanism", sa.Text, nullable=False),
        sa.Column("users", sa.BigInteger, nullable=False),
        sa.Column("honest", sa.BigInteger, nullable=False),
        sa.Column("adjacency", sa.String(16), nullable=False),
        sa.Column("max_distance", sa.BigInteger, nullable=False),
        sa.Column("delta", sa.Double, nullable=False),
        sa.Column("epsilon", sa.Double, nullable=True),
        sa.Column("plan_certificate", sa.LargeBinary, nullable=False),
        sa.Column("accepted", sa.BigInteger, nullable=True),
        sa.Column("final_certificate", sa.LargeBinary, nullable=True),
        sa.Column("reserved_at", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("population", "entry", name="charges_population_entry"),
        sa.CheckConstraint("state in ('reserved', 'settled', 'released')", name="charges_state"),
        sa.CheckConstraint("honest >= 1 and honest <= users", name="charges_honest"),
        sa.CheckConstraint(
            "(state = 'settled') = (accepted is not null) and (state = 'settled') = "
            "(final_certificate is not null)",
            name="charges_settled",
        ),
    )


def downgrade() -> None:
    """Refuse, because without the charges it would be unknown what was spent."""
    raise NotImplementedError("a ledger is never downgraded: it would forget what was spent")

"""Tables of the ledger, for SQLite and PostgreSQL alike.

`migrations` creates them; a test compares the two.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

METADATA: Final = MetaData()

populations: Final = Table(
    "populations",
    METADATA,
    Column("name", String(255), primary_key=True),
    # Counts the changes of the population's charges: a change commits only on the revision it was
    # computed for.
    Column("revision", BigInteger, nullable=False),
    # After a restore from a backup: every entry up to this one has been charged again; 0: never
    # restored.
    Column("reconciled", BigInteger, nullable=False, server_default="0"),
)

charges: Final = Table(
    "charges",
    METADATA,
    Column("round_id", String(64), primary_key=True),
    Column("population", String(255), ForeignKey("populations.name"), nullable=False),
    Column("entry", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("plan", Text, nullable=False),
    Column("mechanism", Text, nullable=False),
    Column("users", BigInteger, nullable=False),
    Column("honest", BigInteger, nullable=False),
    Column("adjacency", String(16), nullable=False),
    Column("max_distance", BigInteger, nullable=False),
    Column("delta", Double, nullable=False),
    # Certified under the charge's own adjacency; null: no finite bound.
    Column("epsilon", Double, nullable=True),
    Column("plan_certificate", LargeBinary, nullable=False),
    Column("accepted", BigInteger, nullable=True),
    Column("final_certificate", LargeBinary, nullable=True),
    # Milliseconds since 1970.
    Column("reserved_at", BigInteger, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
    # Of the analyst's signed result, once the public log has it.
    Column("result_digest", String(64), nullable=True),
    UniqueConstraint("population", "entry", name="charges_population_entry"),
    CheckConstraint("state in ('reserved', 'settled', 'released')", name="charges_state"),
    CheckConstraint("honest >= 1 and honest <= users", name="charges_honest"),
    CheckConstraint(
        "(state = 'settled') = (accepted is not null) and (state = 'settled') = "
        "(final_certificate is not null)",
        name="charges_settled",
    ),
    # All that an account is added up from, so that the certificates beside it need not be read.
    Index(
        "charges_cost",
        "population",
        "state",
        "mechanism",
        "users",
        "honest",
        "adjacency",
        "max_distance",
        "delta",
    ),
)

# Privacy curves as `tabulated` computed them. They can be thrown away: they only save the time to
# compute them again.
curves: Final = Table(
    "curves",
    METADATA,
    Column("key", Text, primary_key=True),
    # The digest of the code that computed it: what another version computed counts for nothing.
    Column("software", String(64), primary_key=True),
    Column("points", LargeBinary, nullable=False),
    Column("made_at", BigInteger, nullable=False),
)

# What the public log holds (docs/log.md): every change of a charge, committed with it. `leaf` is
# the entry's hash in the Merkle tree, so that a start need not read the entries.
log_entries: Final = Table(
    "log_entries",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("leaf", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

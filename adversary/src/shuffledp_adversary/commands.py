"""The adversary's commands, `shuffledp attack|audit`.

Each command's code is imported when it runs.
"""

from __future__ import annotations

import typer

from shuffledp_adversary.attacks.app import attack_app
from shuffledp_adversary.audit.app import audit_app

app = typer.Typer()
app.add_typer(attack_app, name="attack")
app.add_typer(audit_app, name="audit")

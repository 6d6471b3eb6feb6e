"""`shuffledp round`: the operator's command on a deployment whose processes run elsewhere."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from rich.console import Console

from shuffledp_core.documents.models import RoundPlan
from shuffledp_sim.keys.pki import Deployment, open_deployment
from shuffledp_sim.progress import Stages
from shuffledp_sim.rounds.present import print_report, write_documents, write_report
from shuffledp_sim.rounds.report import RoundReport
from shuffledp_sim.rounds.running import StageClock, control_of, follow_round, make_report, open_round, read_result


def run_round_command(keys: Path, plan: RoundPlan, out: Path, *, as_json: bool) -> None:
    """Opens a round, follows it to its end, prints the answer and leaves the documents in `out`/<round>.

    Ctrl-C leaves the round to the analyst, which ends it in time. Raises the error that ended the round.
    """
    deployment = open_deployment(keys)
    with Stages(Console(stderr=True)) as stages:
        report = asyncio.run(_run(deployment, plan, stages))
    folder = out / report.round_id
    write_documents(report, folder, {name: (keys / name).read_bytes() for name in ("roster.json", "root.pub")})
    write_report(report, folder)
    if as_json:
        sys.stdout.write(json.dumps(report.to_dict()) + "\n")
    else:
        print_report(report, Console(), folder)


async def _run(deployment: Deployment, plan: RoundPlan, stages: Stages) -> RoundReport:
    clock = StageClock()
    async with control_of(deployment) as control:
        with clock.stage("open"):
            opened = await open_round(control, plan)
        sys.stderr.write(f"round {opened.round_id} is open for {plan.open_seconds:g} s\n")
        signed = await follow_round(control, opened.round_id, stages, clock, accepting=True)
    result = read_result(deployment, signed)
    clock.finish()
    stages.finish()
    return make_report(deployment, opened, signed, result, clock.seconds)

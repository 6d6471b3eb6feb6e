"""The README's path for those who run the parts themselves: an operator opens a round, people submit by hand."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from shuffledp_sim.keys.pki import write_client
from shuffledp_sim.system.processes import LocalSystem

POLICY = "[policy]\nepsilon = 4.0\ndelta = 1e-3\nepsilon_corrupted = inf\nnodes = 3\noperators = 3\n"


async def run(*command: str, given: str = "") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", *command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(240):
        out, errors = await process.communicate(given.encode())
    return process.returncode or 0, out.decode(), errors.decode()


def client_config(system: LocalSystem, folder: Path, name: str, policy: str = POLICY) -> Path:
    write_client(folder / name, system.deployment, system.population)
    file = folder / f"{name}.toml"
    file.write_text(
        f'keys = "{name}"\nroster = "{system.deployment.roster_file}"\nroot_key = "{system.deployment.root_key}"\n'
        f'state = "state-{name}"\n{policy}'
    )
    return file


async def test_an_operator_opens_a_round_and_people_submit_and_verify(system: LocalSystem, tmp_path: Path) -> None:
    values = {"alice": 2, "bob": 0, "carol": 1}
    configs = {name: client_config(system, tmp_path, name) for name in values}
    operator = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shuffledp_sim.cli", "round", str(system.deployment.folder), "--mechanism",
        "krr-histogram", "--max-value", "2", "--min-reports", "3", "--max-reports", "3", "--epsilon", "3", "--delta",
        "1e-4", "--out", str(tmp_path / "out"), "--format", "json", stdout=PIPE, stderr=PIPE,
    )  # fmt: skip
    assert operator.stderr is not None
    opened = (await operator.stderr.readline()).decode()
    assert "is open" in opened
    round_id = opened.split()[1]
    strict = client_config(system, tmp_path, "dave", POLICY.replace("epsilon = 4.0", "epsilon = 0.1"))
    code, _, errors = await run("shuffledp_client.cli", "submit", "--config", str(strict), "--value", "1")
    assert code == 3
    assert "your policy allows" in errors
    for name, value in values.items():
        code, said, errors = await run(
            "shuffledp_client.cli", "submit", "--config", str(configs[name]), "--value", "-", "--round", round_id,
            given=f"{value}\n",
        )  # fmt: skip
        assert code == 0, errors
        assert "receipt of node-1" in said
    out, errors_ = await operator.communicate()
    assert operator.returncode == 0, errors_.decode()
    answer = json.loads(out)
    assert answer["accepted"] == 3
    assert answer["true_value"] is None
    assert (tmp_path / "out" / round_id / "plot.png").exists()
    for config in configs.values():
        code, said, errors = await run("shuffledp_client.cli", "verify", "--config", str(config), "--wait")
        assert code == 0, errors
    code, _, errors = await run("shuffledp_client.cli", "submit", "--config", str(configs["bob"]), "--value", "7")
    assert code != 0
    assert "Traceback" not in errors

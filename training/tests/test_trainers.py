"""Each trainer: two iterations, a resumed run, a policy file that loads, the same seed twice."""

from pathlib import Path

import pytest
import torch

import anole_ccp as anole
import common
import libra
import orca

SMALL = [
    "--minutes",
    "0",
    "--envs",
    "8",
    "--validation-envs",
    "4",
    "--validation-steps",
    "5",
    "--checkpoints",
    "2",
]
TRAINERS = {
    "libra": (libra, ["--rollout", "4", "--minibatch", "16", "--epochs", "2"]),
    "orca": (orca, ["--rollout", "4", "--warmup", "32", "--batch", "16", "--replay", "2000"]),
}
ITERATION = 8 * 4


def train(name: str, folder: Path, iterations: int, *more: str) -> dict[str, float]:
    module, small = TRAINERS[name]
    steps = str(iterations * ITERATION)
    return module.main([*SMALL, *small, "--steps", steps, "--out", str(folder), *more])


def checkpoint(folder: Path) -> dict:
    return torch.load(folder / "checkpoint.pt", weights_only=True)


@pytest.mark.parametrize("name", TRAINERS)
def test_two_iterations_leave_a_log_a_checkpoint_and_policies(name: str, tmp_path: Path) -> None:
    train(name, tmp_path, 2)
    assert checkpoint(tmp_path)["step"] == 2 * ITERATION
    log = (tmp_path / "log.csv").read_text().splitlines()
    assert log[0].startswith("step,") and "valid_power" in log[0]
    assert list((tmp_path / "tensorboard").iterdir())
    schema = {"libra": "libra-rl"}.get(name, name)
    for file in (f"{schema}{suffix}.safetensors" for suffix in ("", "-last")):
        policy = anole.policy_file.load(tmp_path / file)
        assert policy.schema.name == schema and policy.manifest["seed"] == 1
        assert f"training/{name}.py --minutes 0" in policy.manifest["trained_by"]
        assert torch.isfinite(policy.network()(torch.ones(3, policy.schema.inputs))).all()


@pytest.mark.parametrize("name", TRAINERS)
def test_a_resumed_run_goes_on_where_it_stopped(name: str, tmp_path: Path) -> None:
    train(name, tmp_path, 2)
    before = checkpoint(tmp_path)
    train(name, tmp_path, 4, "--resume")
    after = checkpoint(tmp_path)
    assert after["step"] == 4 * ITERATION
    assert after["rows"][: len(before["rows"])] == before["rows"]
    key = "optimiser" if name == "libra" else "critic_optimiser"
    steps = [float(state["parts"][key]["state"][0]["step"]) for state in (before, after)]
    assert 0 < steps[0] < steps[1]


@pytest.mark.parametrize("name", TRAINERS)
def test_the_seed_decides_the_run(name: str, tmp_path: Path) -> None:
    runs = [train(name, tmp_path / str(i), 2, "--seed", seed) for i, seed in enumerate("112")]
    losses = [(run["reward"], run["value_loss"]) for run in runs]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


@pytest.mark.usefixtures("ray")
def test_two_ray_workers_collect_what_one_process_would(tmp_path: Path) -> None:
    train("libra", tmp_path, 2, "--ray", "local", "--workers", "2")
    assert checkpoint(tmp_path)["step"] == 2 * ITERATION


def test_a_run_is_not_overwritten_and_an_absent_one_not_resumed(tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        train("libra", tmp_path, 2, "--resume")
    assert "leave --resume out" in capsys.readouterr().err
    (tmp_path / "checkpoint.pt").touch()
    with pytest.raises(SystemExit):
        train("libra", tmp_path, 2)
    assert "--resume" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        train("libra", tmp_path / "other", 2, "--init", "none.safetensors")
    assert "none.safetensors" in capsys.readouterr().err


def test_the_manifest_says_nothing_of_where_files_lie(tmp_path: Path, capsys) -> None:
    given = [
        "--steps",
        "9",
        f"--out={tmp_path}",
        "--pool",
        "a",
        "--pool=b",
        "--seed=2",
        "--out",
        str(tmp_path),
    ]
    args = common.parse(libra.LibraArguments, ["--steps", "9", "--out", str(tmp_path)], "")
    run = common.Run("libra", args, given, common.training_ranges(args))
    assert run.commands == ["training/libra.py --steps 9 --seed=2"]
    (tmp_path / "file").touch()
    args.out = str(tmp_path / "file")
    with pytest.raises(SystemExit):
        common.Run("libra", args, given, common.training_ranges(args))
    assert f"--out {tmp_path}/file: " in capsys.readouterr().err


def test_a_run_is_resumed_with_its_own_arguments_and_tells_of_all_commands(tmp_path: Path, capsys) -> None:
    train("libra", tmp_path, 2, "--lr", "0.001")
    for other, told in (
        (["--lr", "0.002"], "--lr 0.001, not --lr 0.002"),
        (["--lr", "0.001", "--change"], "--no-change, not --change"),
        (["--lr", "0.001", "--seed", "2"], "--seed 1, not --seed 2"),
    ):
        with pytest.raises(SystemExit):
            train("libra", tmp_path, 4, "--resume", *other)
        assert f"was begun with {told}" in capsys.readouterr().err
    train("libra", tmp_path, 4, "--resume", "--lr", "0.001")
    with pytest.raises(SystemExit):
        train("libra", tmp_path, 4, "--resume", "--lr", "0.001")
    assert "give a larger --steps" in capsys.readouterr().err
    told = anole.policy_file.load(tmp_path / "libra-rl-last.safetensors").manifest["trained_by"]
    first, second = told.split(" && ")
    assert first.endswith(f"--steps {2 * ITERATION} --lr 0.001") and second.endswith("--resume --lr 0.001")


def test_a_run_without_an_end_or_on_the_validations_links_is_refused(capsys) -> None:
    for wrong, word in (
        (["--steps", "0", "--minutes", "0"], "--steps"),
        (["--device", "none"], "--device none"),
        (["--seed", str(common.VALIDATION_SEED)], "--seed"),
        (["--reward", "power", "--envs", "0"], "--envs"),
    ):
        with pytest.raises(SystemExit):
            libra.main(wrong)
        assert word in capsys.readouterr().err

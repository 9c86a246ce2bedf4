"""Schemas, networks and policy files: the same as in Rust, and what a file must not say."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

import anole_ccp as anole
from anole_ccp import _anole, networks, policy_file

ROOT = Path(__file__).resolve().parents[2]
NAMES = anole.schema.names()


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_that_of_its_file(name):
    schema = anole.schema.load(name)
    assert anole.schema.load(ROOT / "policies" / "schemas" / f"{name}.toml") == schema
    assert schema.inputs == len(schema.data["feature"]) * schema.data.get("history", 1)
    golden = json.loads((ROOT / "policies" / "golden" / f"{name}.json").read_text())
    assert (schema.network, schema.action) == (golden["network"], golden["action"])
    assert (schema.name, schema.sha256) == (golden["name"], golden["schema_sha256"])
    tensors = {key: list(value.shape) for key, value in networks.build(schema).state_dict().items()}
    assert tensors == dict(golden["tensors"])


def test_a_wrong_schema_names_the_line():
    with pytest.raises(ValueError, match=":2: "):
        anole.schema.parse('name = "x"\nno_such = 1\n')


@pytest.mark.parametrize("name", NAMES)
def test_steps_agree_with_rust(name, tmp_path):
    torch.manual_seed(1)
    schema = anole.schema.load(name)
    network = networks.build(schema)
    policy_file.save(tmp_path / "p.safetensors", schema, network)
    rust = _anole.Network((tmp_path / "p.safetensors").read_bytes(), "p")
    state = network.initial_state(4)
    other = state.numpy().copy()
    for _ in range(200):
        x = torch.randn(4, schema.inputs)
        with torch.no_grad():
            out, state = network.step(x, state)
        ours, other = rust.step(x.numpy(), other)
        assert np.abs(ours - out.numpy()).max() < 1e-5
        assert schema.state == 0 or np.abs(other - state.numpy()).max() < 1e-5


RESIDUAL = """kind = "sequential"
head = "direct"
[[network.layer]]
kind = "conv1d"
channels = [2, 6]
length = 8
kernel = 3
stride = 2
padding = 1
time_major = true
activation = "relu"
[[network.layer]]
kind = "conv1d"
channels = [6, 5]
length = 4
kernel = 2
[[network.layer]]
kind = "layer-norm"
units = 15
activation = "tanh"
[[network.layer]]
kind = "dense"
units = 15
activation = "relu"
[[network.layer]]
kind = "gru"
units = 15
[[network.layer]]
kind = "add"
units = 15
of = 2
activation = "leaky-relu-0.2"
[[network.layer]]
kind = "dense"
units = 1
"""


def test_residual_blocks_norms_and_convolutions_agree_with_rust(tmp_path):
    text = 'name = "t"\nsummary = ""\nsource = ""\nhistory = 8\n[interval]\nms = 10.0\n'
    text += '[action]\nkind = "rate-exp"\nbase = 2.0\nlow = -1.0\nhigh = 1.0\n'
    for name in "ab":
        text += f'[[feature]]\nname = "{name}"\nsignal = "one"\nclip = [-1.0, 1.0]\nunit = "1"\n'
    schema = anole.schema.parse(text + f"[network]\n{RESIDUAL}")
    torch.manual_seed(2)
    network = networks.build(schema)
    policy_file.save(tmp_path / "p.safetensors", schema, network)
    rust = _anole.Network((tmp_path / "p.safetensors").read_bytes(), "p")
    x, state = torch.randn(3, 20, schema.inputs), network.initial_state(3)
    whole, _ = network.sequence(x)
    other = state.numpy().copy()
    for t in range(20):
        with torch.no_grad():
            out, state = network.step(x[:, t], state)
        ours, other = rust.step(x[:, t].numpy(), other)
        assert np.abs(ours - out.numpy()).max() < 1e-5 and np.abs(other - state.numpy()).max() < 1e-5
        assert torch.allclose(whole[:, t], out, atol=1e-6)
    whole.sum().backward()


@pytest.mark.parametrize("layers", ["dense 7 relu, lstm 5, gru 4, dense 6 none"])
def test_a_sequence_is_its_steps(layers):
    text = 'name = "t"\nsummary = ""\nsource = ""\n[interval]\nms = 10.0\n'
    text += '[action]\nkind = "rate-exp"\nbase = 2.0\nlow = -1.0\nhigh = 1.0\n'
    text += '[[feature]]\nname = "one"\nsignal = "one"\nclip = [-1.0, 1.0]\nunit = "1"\n'
    text += '[network]\nkind = "sequential"\nhead = "mixture"\n'
    for layer in layers.split(", "):
        kind, units, *activation = layer.split()
        text += f'[[network.layer]]\nkind = "{kind}"\nunits = {units}\n'
        text += "".join(f'activation = "{name}"\n' for name in activation)
    network = networks.build(anole.schema.parse(text))
    x, state = torch.randn(2, 9, 1), network.initial_state(2)
    whole, last = network.sequence(x)
    for t in range(9):
        raw, after = network.raw(x[:, t], state)
        out, state = network.step(x[:, t], state)
        assert torch.allclose(raw, whole[:, t], atol=1e-6) and torch.equal(after, state)
        chosen = raw[:, :2].argmax(-1)
        assert torch.equal(out[:, 0], raw[torch.arange(2), 2 + chosen])
    assert torch.allclose(state, last, atol=1e-6)
    whole.sum().backward()


def test_a_file_comes_back_as_it_was(tmp_path):
    schema = anole.schema.load("orca")
    network = networks.build(schema)
    path = tmp_path / "orca.safetensors"
    policy_file.save(path, schema, network, training={"rtt_ms": [10, 200]}, seed=7, trained_by="a test")
    read = policy_file.load(path)
    assert read.manifest["seed"] == 7 and read.manifest["training"] == {"rtt_ms": [10, 200]}
    assert read.schema == schema
    for name, value in network.state_dict().items():
        assert np.array_equal(read.tensors[name], value.numpy())
    x = torch.randn(2, schema.inputs)
    assert torch.equal(read.network()(x), network(x))
    safetensors = pytest.importorskip("safetensors.numpy")
    assert safetensors.load_file(path).keys() == read.tensors.keys()
    assert [p.name for p in tmp_path.iterdir()] == ["orca.safetensors"]


def test_wrong_weights_are_refused_and_nothing_is_written(tmp_path):
    schema = anole.schema.load("orca")
    weights = networks.build(schema).state_dict()
    path = tmp_path / "x.safetensors"
    missing = {name: value for name, value in weights.items() if name != "layers.1.bias"}
    bad = weights | {"layers.0.bias": torch.full((256,), float("nan"))}
    for what, reason in [(missing, "layers.1.bias"), (bad, "NaN")]:
        with pytest.raises(ValueError, match=f"x.safetensors.*{reason}"):
            policy_file.save(path, schema, what)
    assert not path.exists()


def test_a_damaged_file_is_refused(tmp_path):
    schema = anole.schema.load("orca")
    path = tmp_path / "x.safetensors"
    policy_file.save(path, schema, networks.build(schema))
    whole = path.read_bytes()
    (length,) = struct.unpack_from("<Q", whole)
    changed = bytearray(whole)
    changed[8 + length + 5] ^= 1
    for content in (whole[:-4], whole[:100], b"", bytes(changed)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.safetensors: "):
            policy_file.load(path)

"""The networks of schemas in PyTorch, with the tensor names of policy files.

`build(schema)` gives the module; its `state_dict()` is what a policy file holds. The state of flows is one
tensor [rows, schema.state], laid out as in policy files, all zeros for a new flow.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .schema import Schema

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": torch.relu,
    "leaky-relu-0.2": lambda x: nn.functional.leaky_relu(x, 0.2),
    "leaky-relu-0.01": lambda x: nn.functional.leaky_relu(x, 0.01),
    "tanh": torch.tanh,
}


class Add(nn.Module):
    """The place of a layer that adds what an earlier one gave."""


class Network(nn.Module):
    """What all networks can."""

    schema: Schema

    def initial_state(self, rows: int) -> Tensor:
        """State of new flows, [rows, schema.state]."""
        parameter = next(self.parameters())
        return parameter.new_zeros(rows, self.schema.state)

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        """Outputs [rows, outputs] of one step, without the new state."""
        return self.step(x, self.initial_state(len(x)) if state is None else state)[0]

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of every flow: inputs [rows, inputs] and states [rows, state] to outputs
        [rows, outputs], as they are served, and new states."""
        raise NotImplementedError


class Sequential(Network):
    """Layers one after the other, then a head."""

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.schema = schema
        self.head = schema.network["head"]
        self.described = schema.network["layers"]
        self.layers = nn.ModuleList([_layer(described) for described in self.described])

    def raw(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """As `step`, but the last layer's values, before the head."""
        states, new_states = list(state.split(self._widths(), dim=-1)), []
        given: list[Tensor] = []
        for layer, described in zip(self.layers, self.described, strict=True):
            if isinstance(layer, nn.LSTMCell):
                x, c = layer(x, (states.pop(0), states.pop(0)))
                new_states += [x, c]
            elif isinstance(layer, nn.GRUCell):
                x = layer(x, states.pop(0))
                new_states.append(x)
            else:
                x = _without_state(layer, described, x, given)
            given.append(x)
        return x, torch.cat(new_states, dim=-1) if new_states else state

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network.step`. Through `argmax` no gradient passes."""
        x, state = self.raw(x, state)
        return self.apply_head(x), state

    def apply_head(self, x: Tensor) -> Tensor:
        """The last layer's values [..., units] to outputs [..., outputs]."""
        if self.head == "argmax":
            return x.argmax(dim=-1, keepdim=True).to(x.dtype)
        if self.head == "mixture":
            logits, means, _ = x.chunk(3, dim=-1)
            return means.gather(-1, logits.argmax(dim=-1, keepdim=True))
        return x

    def sequence(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Many steps at once, for training: inputs [rows, steps, inputs] to the last layer's values before
        the head [rows, steps, units], and the states after the last step."""
        state = self.initial_state(len(x)) if state is None else state
        states, new_states = list(state.split(self._widths(), dim=-1)), []
        given: list[Tensor] = []
        for layer, described in zip(self.layers, self.described, strict=True):
            if not isinstance(layer, nn.RNNCellBase):
                x = _without_state(layer, described, x, given)
                given.append(x)
                continue
            weights = [layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh]
            # has_biases, num_layers, dropout, train, bidirectional, batch_first
            options = (True, 1, 0.0, self.training, False, True)
            if isinstance(layer, nn.LSTMCell):
                start = [states.pop(0).unsqueeze(0).contiguous() for _ in range(2)]
                x, h, c = torch.lstm(x, start, weights, *options)
                new_states += [h.squeeze(0), c.squeeze(0)]
            else:
                x, h = torch.gru(x, states.pop(0).unsqueeze(0).contiguous(), weights, *options)
                new_states.append(h.squeeze(0))
            given.append(x)
        return x, torch.cat(new_states, dim=-1) if new_states else state

    def _widths(self) -> list[int]:
        widths: list[int] = []
        for layer in self.described:
            widths += [layer["units"]] * {"lstm": 2, "gru": 1}.get(layer["kind"], 0)
        return widths or [0]


def _layer(described: dict[str, Any]) -> nn.Module:
    """The module of a layer, with PyTorch's initial weights."""
    inputs, units = described["inputs"], described["units"]
    match described["kind"]:
        case "dense":
            return nn.Linear(inputs, units)
        case "lstm":
            return nn.LSTMCell(inputs, units)
        case "gru":
            return nn.GRUCell(inputs, units)
        case "layer-norm":
            return nn.LayerNorm(units)
        case "add":
            return Add()
        case "conv1d":
            channels = described["channels"]
            return nn.Conv1d(*channels, described["kernel"], described["stride"], described["padding"])
        case other:
            raise ValueError(f'unknown layer "{other}"')


def _without_state(layer: nn.Module, described: dict[str, Any], x: Tensor, given: list[Tensor]) -> Tensor:
    """What a layer that carries no state gives for the last axis of `x`."""
    if isinstance(layer, Add):
        x = x + given[described["of"]]
    elif isinstance(layer, nn.Conv1d):
        channels, length = layer.in_channels, described["length"]
        rows = x.reshape(-1, length, channels).transpose(1, 2) if described["time_major"] else None
        rows = x.reshape(-1, channels, length) if rows is None else rows
        x = layer(rows).reshape(*x.shape[:-1], described["units"])
    else:
        x = layer(x)
    return ACTIVATIONS[described["activation"]](x)


class Hierarchical(Network):
    """Spine's watcher and generator: the watcher sees the input and the generator's hidden state, and
    triggers the generator, whose tanh head gives the outputs, when its logit is above 0; otherwise
    generator and outputs stay. The trigger (0 or 1) is the last output."""

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.schema = schema
        network = schema.network
        watcher, generator, self.values = network["watcher"], network["generator"], network["outputs"] - 1
        self.watcher = nn.LSTMCell(network["inputs"] + generator, watcher)
        self.trigger = nn.Linear(watcher, 1)
        self.generator = nn.LSTMCell(watcher, generator)
        self.head = nn.Linear(generator, self.values)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network.step`. Through the trigger no gradient passes."""
        watcher, generator = self.watcher.hidden_size, self.generator.hidden_size
        widths = [watcher, watcher, generator, generator, self.values]
        h_w, c_w, h_g, c_g, out = state.split(widths, dim=-1)
        h_w, c_w = self.watcher(torch.cat([x, h_g], dim=-1), (h_w, c_w))
        triggered = self.trigger(h_w) > 0
        new_h, new_c = self.generator(h_w, (h_g, c_g))
        out = torch.where(triggered, torch.tanh(self.head(new_h)), out)
        h_g, c_g = torch.where(triggered, new_h, h_g), torch.where(triggered, new_c, c_g)
        outputs = torch.cat([out, triggered.to(out.dtype)], dim=-1)
        return outputs, torch.cat([h_w, c_w, h_g, c_g, out], dim=-1)


def build(schema: Schema) -> Any:
    """The network of a schema, with PyTorch's initial weights: `Sequential` or `Hierarchical`."""
    return {"sequential": Sequential, "hierarchical": Hierarchical}[schema.network["kind"]](schema)

"""The environments' id in Gymnasium. An installed package is found by Gymnasium itself (an entry point of
`gymnasium.envs`); `import anole_ccp.gym` registers them as well."""

from __future__ import annotations

#: What `gymnasium.make` and `make_vec` are given.
ID = "anole/Link-v0"


def register() -> None:
    """Makes Gymnasium know the environments. Imports nothing of Gymnasium but its registry, which calls this."""
    from gymnasium.envs.registration import register as gymnasium_register
    from gymnasium.envs.registration import registry

    if ID not in registry:
        module = "anole_ccp.gym"
        gymnasium_register(ID, entry_point=f"{module}:GymEnv", vector_entry_point=f"{module}:make_vector")

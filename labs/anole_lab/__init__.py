"""Six labs on congestion control: `anole-lab check 02` says what a submission does and what it should do.

| module | what it holds |
|---|---|
| `lab` | labs, what a check expects of a submission, hidden links |
| `check` | one check of one submission, as table, picture and JSON |
| `sandbox` | a check in a process of its own, with limits |
| `guard`, `jail` | what a submission may not do: in Python, with a word that says so, and in the kernel |
| `grade` | a class: every submission, a CSV, the leaderboard |
| `notebook` | the labs as Jupyter notebooks |
| `cli` | the program `anole-lab` |
"""

from .check import Outcome, check, check_here
from .lab import Checker, Lab, Links, labs

__all__ = ["Checker", "Lab", "Links", "Outcome", "check", "check_here", "labs"]

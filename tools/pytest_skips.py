"""A plugin of pytest: appends a line for each skip to the file that $ANOLE_SKIPS names (see skips.sh)."""

import os

import pytest


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    path = os.environ.get("ANOLE_SKIPS")
    if path and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        with open(path, "a") as skips:
            skips.write(f"{report.nodeid or 'pytest'}: {' '.join(reason.split())}\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)

"""The report: what is drawn again from the same figures is the same file."""

import pytest

pytest.importorskip("matplotlib")

import report


def test_curves_that_are_drawn_again_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "HERE", tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "orca.csv").write_text("step,reward,valid_power\n1,0.5,\n2,0.6,0.4\n")
    assert report.curves() == ["![orca](logs/orca.svg)", ""]
    first = (tmp_path / "logs" / "orca.svg").read_text()
    report.curves()
    assert (tmp_path / "logs" / "orca.svg").read_text() == first

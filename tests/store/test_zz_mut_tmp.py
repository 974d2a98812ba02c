import pytest
from pathlib import Path
from hypothesis import Phase
from inturn.store.sqlite import arrive, lane_verbs, transaction
from tests.store.test_lane_property_inline import *
from tests.store.test_lane_property import SQLITE, explore, is_found_out
from inturn.store.sqlite.burst import joins
from inturn.store.sqlite.lane import mailbox

def test_big_sqlite(tmp_path): explore(TimedInlineMachine, SQLITE.format(folder=tmp_path), 1500, phases=[Phase.generate])
def test_plain_derandomized(tmp_path): explore(TimedInlineMachine, SQLITE.format(folder=tmp_path), 300, derandomize=True, database=None, phases=[Phase.generate], report_multiple_bugs=False)
def test_cuts(tmp_path, monkeypatch):
    monkeypatch.setattr(arrive, "MOST_CUTS", 100)
    is_found_out(tmp_path, TimedInlineMachine)
def test_company_none(tmp_path, monkeypatch):
    def company(tx, message):
        found=[]
        for other in mailbox(tx, message.key, 100):
            if other.handler == message.handler:
                if not joins(tx, other, message.handler): return None
                found.append(other)
            if other.ident == message.ident: return found
        return None
    monkeypatch.setattr(arrive, "company", company)
    is_found_out(tmp_path, TimedInlineMachine)
def test_company_self(tmp_path, monkeypatch):
    orig = arrive.company
    monkeypatch.setattr(arrive, "company", lambda tx, m: orig(tx, m) if m.handler else [m])
    is_found_out(tmp_path, TimedInlineMachine)
def test_back(tmp_path, monkeypatch):
    orig = lane_verbs.begin
    def begin(tx, opening):
        import types
        real = tx.is_lost
        class T:
            def __getattr__(self, n): return getattr(tx, n)
        tx_is = type(tx).is_lost
        try:
            type(tx).is_lost = lambda self, t: False
            return orig(tx, opening)
        finally:
            type(tx).is_lost = tx_is
    monkeypatch.setattr(lane_verbs, "begin", begin)
    is_found_out(tmp_path, TimedInlineMachine)

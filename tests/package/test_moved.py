"""Pickles that name a module by its former name load."""

from __future__ import annotations

import importlib
import pickle

import pytest

import framejit
from framejit._api._moved import MOVED


@pytest.mark.capture
@pytest.mark.parametrize("name", MOVED)
def test_former_name_of_a_module(name):
    former, module = (importlib.import_module(f"framejit.{one}") for one in (name, MOVED[name]))
    own = {key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    names = {key for key in own if not key.startswith("_")}
    assert names
    assert all(getattr(former, key) is getattr(module, key) for key in names)


@pytest.mark.capture
def test_pickle_with_a_former_name():
    assert pickle.loads(b"cframejit._sparse\nCOOTensor\n.") is framejit.COOTensor


def test_other_names_are_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"framejit\._nothing"):
        importlib.import_module("framejit._nothing")

"""Cells that hold cells."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from framejit.nn._cell import Cell
from framejit.ops import _vmap


class _Ordered(Cell):
    """Cells under the names '0', '1' ... `_items` has them as a tuple, for compiled code."""

    def _refresh(self, cells: Iterable[Cell]) -> None:
        cells = list(cells)
        for cell in cells:
            if not isinstance(cell, Cell):
                raise TypeError(
                    f"For '{type(self).__name__}', each cell must be subclass of Cell, but got {type(cell).__name__}."
                )
        known = {id(cell) for cell in self._cells.values()}
        for name in list(self._cells):
            delattr(self, name)
        for number, cell in enumerate(cells):
            if id(cell) in known:  # its parameters have their names
                self._cells[str(number)] = cell
                self.__dict__[str(number)] = cell
            else:
                setattr(self, str(number), cell)
        self.__dict__["_items"] = tuple(cells)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(*self._parts(self._items[index]))
        return self._items[index]

    def _parts(self, cells: tuple[Cell, ...]) -> tuple[Any, ...]:
        return (list(cells),)

    def __setitem__(self, index: int, cell: Cell) -> None:
        items = list(self._items)
        items[index] = cell
        self._refresh(items)

    def __delitem__(self, index: Any) -> None:
        items = list(self._items)
        del items[index]
        self._refresh(items)

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def append(self, cell: Cell) -> Any:
        """Add a cell at the end."""
        self._refresh([*self._items, cell])
        return self

    def insert(self, index: int, cell: Cell) -> None:
        """Add a cell before another one."""
        items = list(self._items)
        items.insert(index, cell)
        self._refresh(items)

    def set_grad(self, flag: bool = True) -> Any:
        """Set whether these cells compute gradients."""
        for cell in self._items:
            cell.set_grad(flag)
        return super().set_grad(flag)


def _refuse_dicts(cells: Iterable[Any]) -> None:
    for cell in cells:
        if isinstance(cell, CellDict):
            raise TypeError("For 'CellList', the type of cell can not be CellDict, but got CellDict.")


class CellList(_Ordered):
    """A list of cells.

    Parameters
    ----------
    *args : list of Cell, or cells
        The cells.
    auto_prefix : bool
        Whether the names of Parameters begin with the name of the attribute that holds the cell.
    """

    def __init__(self, *args: Any, auto_prefix: bool = True) -> None:
        super().__init__(auto_prefix)
        cells = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple, CellList)) else args
        _refuse_dicts(cells)
        self._refresh(cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._items)

    def extend(self, cells: Iterable[Cell]) -> CellList:
        """Add cells at the end."""
        if not isinstance(cells, Iterable):
            raise TypeError(
                f"For 'CellList', the new cells wanted to append should be instance of list, but got {type(cells).__name__}."
            )
        cells = list(cells)
        _refuse_dicts(cells)
        self._refresh([*self._items, *cells])
        return self

    def construct(self, *inputs: Any) -> Any:
        """A list computes nothing."""
        raise NotImplementedError("A CellList can not be called; call its cells.")


_vmap.cell_list = CellList


class SequentialCell(_Ordered):
    """Cells one after the other.

    Parameters
    ----------
    *args : Cell, list of Cell or OrderedDict
        The cells; an OrderedDict also gives their names.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, cell in args[0].items():
                setattr(self, name, cell)
            self.__dict__["_items"] = tuple(args[0].values())
        else:
            self._refresh(args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._items)

    def construct(self, input_data: Any) -> Any:
        """The last cell's result."""
        for cell in self._items:
            input_data = cell(input_data)
        return input_data


def _pair(numbered: tuple[int, Any]) -> tuple[Any, Any]:
    number, pair = numbered
    if not isinstance(pair, Iterable):
        raise TypeError(f"CellDict update sequence element #{number} should be Iterable; but got {type(pair).__name__}")
    items = tuple(pair)
    if len(items) != 2:
        raise ValueError(f"CellDict update sequence element #{number}, length should be 2; but has length {len(items)}")
    return items


class CellDict(Cell):
    """A dict of cells, with str keys.

    Parameters
    ----------
    *args : dict, iterable of pairs, or nothing
        The cells.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if args:
            self.update(args[0])

    def update(self, cells: Any) -> None:
        """Add the cells of a dict, or of pairs of key and cell."""
        if not isinstance(cells, Iterable):
            raise TypeError(
                f"CellDict.update() should be called with an iterable of key-value pairs, but got {type(cells).__name__}"
            )
        for key, cell in cells.items() if isinstance(cells, (CellDict, Mapping)) else map(_pair, enumerate(cells)):
            self[key] = cell

    def __getitem__(self, key: str) -> Cell:
        return self._cells[key]

    def __setitem__(self, key: str, cell: Cell) -> None:
        if not isinstance(key, str):
            raise TypeError(f"For 'CellDict', the type of key should be string but got {type(key).__name__}.")
        if hasattr(type(self), key):
            raise KeyError(f"For 'CellDict', the key can not be same with the attributes of Cell, but got key {key}.")
        if "." in key:
            raise KeyError(f"For 'CellDict', key can not contain \".\", but got key {key}")
        if not key:
            raise KeyError("For 'CellDict', key can not be empty string \"\", but got key ")
        if cell is None:
            raise TypeError("For 'CellDict', cell can not be None.")
        if not isinstance(cell, Cell):
            raise TypeError(f"For 'CellDict', the type of cell should be Cell, but got {type(cell).__name__}.")
        if isinstance(cell, (CellDict, CellList, SequentialCell)):
            raise TypeError(
                "For 'CellDict', the type of cell can not be CellDict, CellList or SequentialCell, but got "
                f"{type(cell).__name__}."
            )
        setattr(self, key, cell)

    def __delitem__(self, key: str) -> None:
        if key not in self._cells:
            raise KeyError(key)
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __contains__(self, key: str) -> bool:
        return key in self._cells

    def keys(self) -> Any:
        """The keys."""
        return self._cells.keys()

    def values(self) -> Any:
        """The cells."""
        return self._cells.values()

    def items(self) -> Any:
        """Keys and cells."""
        return self._cells.items()

    def pop(self, key: str) -> Cell:
        """Take a cell out."""
        cell = self._cells[key]
        del self[key]
        return cell

    def clear(self) -> None:
        """Take all cells out."""
        for key in list(self._cells):
            del self[key]

    def construct(self, *inputs: Any) -> Any:
        """A dict computes nothing."""
        raise NotImplementedError("A CellDict can not be called; call its cells.")

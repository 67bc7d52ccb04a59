# SPDX-License-Identifier: MIT
"""Which samples, how often: mixtures of data sets, and the options that become a plan (docs/sampling.md)."""

import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from ._lib import whole

__all__ = ["Mix"]

_SET_OPTIONS = ("shuffle", "repeat", "select", "relabel", "weights", "draw", "epoch")
# The line of a set in the form that the library writes: name, weight, options, data set.
_SET_LINE = re.compile(r'set (\S+) \d+((?: [a-z]+=(?:"(?:\\.|[^"\\])*"|[^ "]+))*) (.*)', re.DOTALL)

_RELABEL = re.compile(r'relabel="(?:\\.|[^"\\])*"')


class Mix:
    """Several data sets, each with a weight: its share of the samples of each block of 64 positions.

    A set is ``name=(weight, dataset)`` or ``name=(weight, dataset, {option: value})``. Options of a set are ``select``,
    ``relabel``, ``weights``, ``draw``, ``shuffle``, ``repeat`` and ``epoch``; docs/sampling.md describes them. Names
    that are not identifiers are passed as ``Mix({"name": (weight, dataset)})``.

    >>> Mix(photos=(7, "folder:/data/photos"), art=(3, "tar:/data/art.tar", {"repeat": 2})).names
    ['photos', 'art']
    """

    def __init__(self, sets: Optional[Mapping[str, Tuple[Any, ...]]] = None, **more: Tuple[Any, ...]) -> None:
        self.sets: Dict[str, Tuple[Any, Any, Dict[str, Any]]] = {}
        if sets is not None and not isinstance(sets, Mapping):
            raise TypeError(f"a Mix is a mapping of names, as in Mix({{'photos': (7, '/data/photos')}}), not {sets!r}")
        for name, value in {**(sets or {}), **more}.items():
            if not isinstance(value, tuple) or not 2 <= len(value) <= 3:
                raise TypeError(f"set {name!r} must be (weight, dataset) or (weight, dataset, options), not {value!r}")
            if len(value) == 3 and not isinstance(value[2], Mapping):
                raise TypeError(f"set {name!r}: options must be a mapping, as in {{'repeat': 2}}, not {value[2]!r}")
            options = dict(value[2]) if len(value) == 3 else {}
            for option in options:
                if option not in _SET_OPTIONS:
                    raise TypeError(f"set {name!r}: there is no option {option!r}; its options: "
                                    f"{', '.join(_SET_OPTIONS)}")
            self.sets[name] = (value[0], value[1], options)
        if not self.sets:
            raise ValueError("a Mix needs at least one set")

    @property
    def names(self) -> List[str]:
        return list(self.sets)

    def __repr__(self) -> str:
        return f"Mix({', '.join(f'{name}=({weight!r}, {where!r})' for name, (weight, where, _) in self.sets.items())})"


def _quoted(value: Any) -> str:
    text = os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)
    if "\n" in text:
        raise ValueError(f"{text!r} contains a line feed")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _weight(value: Any) -> str:
    """Return a weight as a plan spells it: floats have at most nine digits after the point."""
    if isinstance(value, float):
        text = f"{value:.9f}".rstrip("0").rstrip(".")
        if value != 0 and text in ("0", "-0"):
            raise ValueError(f"the weight {value!r} is less than 1e-9: multiply all weights")
        return text
    return _word(value, "weight")


def _word(value: Any, what: str) -> str:
    """Return a value that is one word of a line."""
    text = str(value)
    if not text or re.search(r'[\s"]', text):
        raise ValueError(f"{what} {text!r}: white space and quotation marks are not allowed")
    return text


def _rule(weights: Any) -> Any:
    """Return a rule of weights, which is text."""
    if isinstance(weights, (str, bytes, os.PathLike)):
        return weights
    kind = type(weights).__name__
    raise TypeError(f"weights= needs a rule such as 'class', not a value of type {kind}: save one weight per sample "
                    "with numpy.save('w.npy', w.astype('f4')), and write 'file:w.npy'")


def _rules(weights: Any) -> Dict[int, Any]:
    """Return {pass: the rule of weights from that pass on}."""
    if not isinstance(weights, Mapping):
        return {} if weights is None else {0: _rule(weights)}
    for at in weights:
        if isinstance(at, bool) or not isinstance(at, int) or at < 0:
            raise TypeError(f"weights={weights!r}: the rules of weights need the numbers of passes, from 0 on, "
                            f"not {at!r}")
    return {at: _rule(rule) for at, rule in sorted(weights.items()) if rule is not None}


def _set_line(name: str, weight: Any, dataset: str, options: Mapping[str, Any]) -> str:
    if "\n" in dataset:
        raise ValueError(f"the data set {dataset!r} contains a line feed")
    words = [f"{key}={_quoted(value)}" for key, value in
             {**options, "weights": _rules(options.get("weights")).get(0)}.items() if value is not None]
    return " ".join(["set", _word(name, "set"), _weight(weight), *words, dataset])


def _rule_lines(name: str, weights: Any) -> Iterable[str]:
    """Return the lines that change the weights of a set's samples from later passes on."""
    return [f"weights {at} {_word(name, 'set')} {_quoted(rule)}" for at, rule in _rules(weights).items() if at > 0]


def _weights_line(begin: str, weights: Mapping[str, Any]) -> str:
    if not isinstance(weights, Mapping):
        raise TypeError(f"{begin}: the weights of sets must be a mapping, as in {{'photos': 5, 'art': 1}}, not "
                        f"{weights!r}")
    return " ".join([begin] + [f"{_word(name, 'set')} {_weight(weight)}" for name, weight in weights.items()])


def _piece_lines(at: Mapping[Any, Mapping[str, Any]]) -> Iterable[str]:
    """Yield pieces by their positions; a ramp has (from, to) or (from, to, steps) instead of a position."""
    if not isinstance(at, Mapping):
        raise TypeError("the weights of sets must be a mapping of positions, as in {12800: {'photos': 5, 'art': 1}}, "
                        f"not {at!r}")

    def begin(item: Tuple[Any, Any]) -> int:
        where = item[0]
        if isinstance(where, tuple) and not 2 <= len(where) <= 3:
            raise ValueError(f"a ramp is (from, to) or (from, to, steps), not {where!r}")
        return whole(where[0] if isinstance(where, tuple) else where, "a position", 0, 2**63 - 1)

    for where, weights in sorted(at.items(), key=begin):
        if isinstance(where, tuple):
            steps = where[2] if len(where) > 2 else 64
            yield _weights_line(f"ramp {where[0]} {where[1]} {steps}", weights)
        else:
            yield _weights_line(f"at {where}", weights)


def _skip_lines(skip: Any) -> Iterable[str]:
    """Return the lines that skip positions, given as pairs (from, to)."""
    pairs = []
    try:
        for begin, end in skip:
            pairs.append((whole(begin, "a position", 0, 2**63 - 1), whole(end, "a position", 0, 2**63 - 1)))
    except (TypeError, ValueError):
        raise TypeError(f"skip= needs pairs of positions, as in [(640, 1280)], not {skip!r}") from None
    return [f"skip {begin} {end}" for begin, end in sorted(pairs)]


def plan_of(sets: Mapping[str, Tuple[Any, str, Mapping[str, Any]]], *, block: Optional[int] = None,
            epoch: Union[int, str, None] = None, labels: Optional[str] = None, stratify: Optional[str] = None,
            balance: Optional[str] = None, classes: Optional[int] = None, each: Optional[int] = None,
            at: Optional[Mapping[Any, Mapping[str, Any]]] = None,
            skip: Optional[Iterable[Tuple[int, int]]] = None) -> str:
    """Return the text of a plan."""
    lines = [_set_line(name, *rest) for name, rest in sets.items()]
    if isinstance(block, bool):
        raise TypeError(f"block must be a whole number, not {block!r}")
    if block is not None:
        block = whole(block, "block", 1, 2**28)
    for word, value in (("block", block), ("epoch", epoch), ("labels", labels), ("stratify", stratify)):
        if value is not None:
            lines.append(f"{word} {_word(value, word)}")
    if balance is not None:
        lines.append(f"balance {balance}" + "".join(f" {key}={value}" for key, value in
                                                    (("classes", classes), ("each", each)) if value is not None))
    elif each is not None or classes is not None:
        raise ValueError("each= and a number of classes belong to balance=")
    lines.extend(_piece_lines(at or {}))
    for name, (_, _, options) in sets.items():
        lines.extend(_rule_lines(name, options.get("weights")))
    lines.extend(() if skip is None else _skip_lines(skip))
    return "".join(line + "\n" for line in lines)


def amend_text(names: List[str], at: Optional[Mapping[Any, Mapping[str, Any]]],
               weights: Optional[Mapping[Any, Any]]) -> str:
    """Return lines of a plan that change weights of its sets at these positions, and of samples at these passes."""
    by_set = {} if weights is None else weights
    if not isinstance(by_set, Mapping):
        raise TypeError("the weights of samples must be a mapping of epochs, "
                        f"as in {{3: 'file:w.npy'}}, not {weights!r}")
    if any(not isinstance(key, str) for key in by_set):
        if len(names) > 1:
            raise TypeError("weights of samples belong to one set of the mixture: its name is missing")
        by_set = {"".join(names) or "data": by_set}  # without a plan, the library says so
    lines = list(_piece_lines(at or {}))
    for name, rules in by_set.items():
        if not isinstance(rules, Mapping):
            raise TypeError(f"the weights of set {name!r} must be a mapping of passes, as in {{3: 'file:w.npy'}}, not "
                            f"{rules!r}")
        if 0 in _rules(rules):
            raise ValueError(f"set {name!r}: pass 0 has begun with the stream")
        lines.extend(_rule_lines(name, rules))
    return "".join(line + "\n" for line in lines)


def labels_plan(text: str) -> str:
    """Return a plan that shows each sample of another plan's sets once, with the same labels."""
    lines = []
    for line in text.split("\n"):
        found = _SET_LINE.fullmatch(line)
        if found is not None:
            relabel = _RELABEL.search(found[2])
            lines.append(f"set {found[1]} 1 {relabel[0] + ' ' if relabel else ''}{found[3]}\n")
        elif line.startswith("labels "):
            lines.append(line + "\n")
    return "".join(lines) + "block 65536\nstratify set\n"

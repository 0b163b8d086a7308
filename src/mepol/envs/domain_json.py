"""domain.json: the fields of a Domain as plain JSON, and back, read as if a stranger had made it.

An end of a range that is unbounded is null, discrete actions are their `choices`, the reachable cells are packed bits
in base64, a function is its name. Every size is bounded before anything of that size is made.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mepol.algorithm.encoder import RandomEncoder
from mepol.algorithm.pictures import MAX_SOURCE, Picture
from mepol.algorithm.symmetry import Mirror, Symmetry, require_commuting
from mepol.envs.choices import MAX_CHOICES, Choices
from mepol.envs.coordinates import MAX_BINS, MAX_NAME, Absent, Feature, Floats, Grid, name_of
from mepol.envs.pixels import Truth
from mepol.envs.symmetries import MOST

FORMAT = "mepol-domain-1"
MAX_SIZE = 100_000  # coordinates of an observation, of an action, and features
MAX_TEXT = 64 * 2**20  # characters
DTYPES = ("float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
KEYS = ("format", "env", "observations", "actions", "names", "features", "widths", "grid", "ceiling", "reachable")
LATER: dict[str, Any] = {
    "floor": 0.0,
    "picture": None,
    "truth": None,
    "tabular": False,
    "symmetries": [],
}  # keys that an earlier version did not write, and what they then mean
GRID_KEYS = ("axes", "low", "high", "bins")


def write(fields: dict[str, Any]) -> str:
    """The JSON text of the fields of a Domain."""
    grid, mask, features, ceiling = (fields[key] for key in ("grid", "reachable", "features", "ceiling"))
    actions = _range_json(fields["action_low"], fields["action_high"], fields["dtypes"][1])
    content: dict[str, Any] = {
        "format": FORMAT,
        "env": fields["env"],
        "observations": _range_json(fields["low"], fields["high"], fields["dtypes"][0]),
        "actions": {"choices": fields["choices"]} if fields["choices"] else actions,
        "names": fields["names"],
        "features": _features_json(features),
        "widths": fields["widths"],
        "floor": fields["floor"],
        "grid": None if grid is None else {key: getattr(grid, key) for key in GRID_KEYS},
        "ceiling": ceiling if ceiling is not None and math.isfinite(ceiling) else None,
        "reachable": None if mask is None else base64.b64encode(np.packbits(mask).tobytes()).decode(),
    }
    if (picture := fields["picture"]) is not None:  # of others nothing is said
        content["picture"] = picture.source
    if (truth := fields["truth"]) is not None:
        content["truth"] = {"names": truth.names, "range": _range_json(truth.low, truth.high, "float64")}
    if fields["tabular"]:
        content["tabular"] = True
    if fields["symmetries"]:
        content["symmetries"] = [_symmetry_json(symmetry) for symmetry in fields["symmetries"]]
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _symmetry_json(symmetry: Symmetry) -> dict[str, list[int]]:
    """Of each value's image whose value it is, counted from 1, with the sign that it gets."""
    return {
        side: [s * (i + 1) for i, s in zip(mirror.index, mirror.sign, strict=True)]
        for side, mirror in (("states", symmetry.states), ("actions", symmetry.actions))
    }


def _features_json(features: Any) -> Any:
    if isinstance(features, RandomEncoder):
        return {"encoder": features.seed, "digest": features.digest}
    return {"given": name_of(features)} if callable(features) else features


def _range_json(low: Floats, high: Floats, dtype: str) -> dict[str, Any]:
    ends = {"low": low.tolist(), "high": high.tolist()}
    return {"dtype": dtype} | {k: [v if math.isfinite(v) else None for v in values] for k, values in ends.items()}


def read(text: str) -> dict[str, Any]:
    """The fields of a Domain that `write` wrote; a ValueError says what is wrong with anything else."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"it has {len(text)} characters, more than {MAX_TEXT}")
    content = json.loads(text, parse_constant=_no_constant)
    content = _object({**LATER, **content} if isinstance(content, dict) else content, (*KEYS, *LATER), "it")
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']!r:.40}, not {FORMAT!r}")
    low, high, observed = _range(content["observations"], "observations")
    choices = _choices(content["actions"])
    action_low, action_high, acted = _range(content["actions"], "actions") if choices is None else _counted(choices)
    names = tuple(_text(n, "names") for n in _list(content["names"], "names", len(low), len(low)))
    picture, truth = _picture(content["picture"], len(low)), _truth(content["truth"])
    features = _features(content["features"], len(low), picture)
    count = (1, MAX_SIZE) if callable(features) else (len(features), len(features))
    widths = tuple(_number(w, "widths") for w in _list(content["widths"], "widths", *count))
    if not all(width > 0 for width in widths):
        raise ValueError("its widths must be above 0")
    floor = _number(content["floor"], "floor")
    if floor < 0:
        raise ValueError("its floor must not be below 0")
    if not isinstance(content["tabular"], bool):
        raise ValueError("its tabular must be true or false")
    over = names if picture is None else () if truth is None else truth.names
    grid = None if content["grid"] is None else _grid(content["grid"], over)
    return {
        "env": _text(content["env"], "env", 10_000),
        "low": low,
        "high": high,
        "action_low": action_low,
        "action_high": action_high,
        "names": names,
        "features": features,
        "widths": widths,
        "floor": floor,
        "grid": grid,
        "ceiling": None if content["ceiling"] is None else _number(content["ceiling"], "ceiling"),
        "reachable": None if content["reachable"] is None else _mask(content["reachable"], grid),
        "dtypes": (observed, acted),
        "choices": choices,
        "picture": picture,
        "truth": truth,
        "tabular": content["tabular"],
        "symmetries": _symmetries(content["symmetries"], len(low), len(action_low)),
    }


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _object(value: Any, keys: tuple[str, ...], what: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys):
        raise ValueError(f"{what} must be an object of {', '.join(keys)}")
    return value


def _list(value: Any, what: str, least: int, most: int) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise ValueError(f"its {what} must be a list of {least if least == most else f'{least} to {most}'} values")
    return value


def _text(value: Any, what: str, most: int = MAX_NAME) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise ValueError(f"its {what} must be texts of 1 to {most} characters")
    value.encode()  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
    return value


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1.7976931348623157e308:
        raise ValueError(f"its {what} must be finite numbers")
    return float(value)


def _whole(value: Any, what: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"its {what} must be whole numbers from {least} to {most}")
    return value


def _range(value: Any, what: str) -> tuple[Floats, Floats, str]:
    """Lower and upper ends (S,), and the type of what lies between them."""
    content = _object(value, ("dtype", "low", "high"), f"its {what}")
    if content["dtype"] not in DTYPES:
        raise ValueError(f"its {what} have the type {content['dtype']!r:.40}, not one of {', '.join(DTYPES)}")
    lows = _list(content["low"], what, 1, MAX_SIZE)
    highs = _list(content["high"], what, len(lows), len(lows))
    low = np.array([-np.inf if v is None else _number(v, what) for v in lows])
    high = np.array([np.inf if v is None else _number(v, what) for v in highs])
    limits: Any = np.finfo(content["dtype"]) if content["dtype"][0] == "f" else np.iinfo(content["dtype"])
    ends = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)]])
    if not ((ends >= float(limits.min)) & (ends <= float(limits.max))).all():
        raise ValueError(f"its {what} have ends beyond what their type {content['dtype']} holds")
    if not (low <= high).all():
        raise ValueError(f"the lower ends of its {what} must not lie above the upper ones")
    return low, high, content["dtype"]


def _choices(value: Any) -> Choices | None:
    """How many values each column of an action has; None where actions have a range instead."""
    if not isinstance(value, dict) or "choices" not in value:
        return None
    items = _list(_object(value, ("choices",), "its actions")["choices"], "choices", 1, MAX_CHOICES)
    choices = tuple(_whole(n, "choices", 1, MAX_CHOICES) for n in items)
    if sum(choices) > MAX_CHOICES:
        raise ValueError(f"its choices are {sum(choices)} in all, more than {MAX_CHOICES}")
    return choices


def _counted(choices: Choices) -> tuple[Floats, Floats, str]:
    """The range of whole numbers from 0, as `_range` gives it."""
    return np.zeros(len(choices)), np.array(choices) - 1.0, "int64"


def _picture(value: Any, size: int) -> Picture | None:
    if value is None:
        return None
    sides = [_whole(side, "picture", 1, MAX_SOURCE) for side in _list(value, "picture", 3, 3)]
    picture = Picture(*sides)
    if picture.size != size:
        raise ValueError(f"its picture {picture.source} makes rows of {picture.size}, and its observations have {size}")
    return picture


def _truth(value: Any) -> Truth | None:
    if value is None:
        return None
    content = _object(value, ("names", "range"), "its truth")
    low, high, _ = _range(content["range"], "truth")
    return Truth(tuple(_text(n, "truth") for n in _list(content["names"], "truth", len(low), len(low))), low, high)


def _symmetries(value: Any, state_dim: int, action_dim: int) -> tuple[Symmetry, ...]:
    items = [_object(item, ("states", "actions"), "each symmetry") for item in _list(value, "symmetries", 0, MOST)]
    found = tuple(Symmetry(_mirror(item["states"], state_dim), _mirror(item["actions"], action_dim)) for item in items)
    require_commuting(found)
    return found


def _mirror(value: Any, size: int) -> Mirror:
    signed = [_whole(n, "symmetries", -size, size) for n in _list(value, "symmetries", size, size)]
    return Mirror(tuple(abs(n) - 1 for n in signed), tuple(1 if n > 0 else -1 for n in signed))


def _encoder(value: dict[str, Any], picture: Picture) -> RandomEncoder:
    content = _object(value, ("encoder", "digest"), "its features")
    encoder = RandomEncoder(picture, _whole(content["encoder"], "encoder", 0, 2**63 - 1))
    if encoder.digest != content["digest"]:
        raise ValueError(f"its encoder had the weights {content['digest']!r:.40}, and its seed now draws others")
    return encoder


def _features(value: Any, size: int, picture: Picture | None) -> tuple[Feature, ...] | Absent | RandomEncoder:
    if picture is not None:
        return _encoder(value, picture)
    if isinstance(value, dict):
        return Absent(_text(_object(value, ("given",), "its features")["given"], "features"))
    features = tuple(_feature(item, size) for item in _list(value, "features", 1, size))
    if len(set(features)) != len(features):
        raise ValueError("its features name a coordinate twice")
    return features


def _feature(value: Any, size: int) -> Feature:
    if isinstance(value, list):
        first, second = (_whole(i, "features", 0, size - 1) for i in _list(value, "angles", 2, 2))
        return first, second
    return _whole(value, "features", 0, size - 1)


def _grid(value: Any, names: tuple[str, ...]) -> Grid:
    content = _object(value, GRID_KEYS, "its grid")
    pairs = {key: _list(content[key], f"grid's {key}", 2, 2) for key in GRID_KEYS}
    axes = [_whole(i, "grid's axes", 0, len(names) - 1) for i in pairs["axes"]]
    bins = [_whole(n, "grid's bins", 1, MAX_BINS) for n in pairs["bins"]]
    (low, other_low), (high, other_high) = ([_number(v, "grid's ends") for v in pairs[k]] for k in ("low", "high"))
    chosen = names[axes[0]], names[axes[1]]
    return Grid((axes[0], axes[1]), chosen, (low, other_low), (high, other_high), (bins[0], bins[1]))


def _mask(value: Any, grid: Grid | None) -> NDArray[np.bool_]:
    if grid is None:
        raise ValueError("its reachable cells have no grid")
    cells = grid.bins[0] * grid.bins[1]
    size = (cells + 7) // 8
    if not isinstance(value, str) or len(value) != 4 * ((size + 2) // 3):
        raise ValueError(f"its reachable cells must be {cells} bits in base64")
    try:
        packed = base64.b64decode(value.encode(), validate=True)
    except binascii.Error as fault:
        raise ValueError(f"its reachable cells are not base64: {fault}") from fault
    if len(packed) != size:
        raise ValueError(f"its reachable cells must be {cells} bits in base64")
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=cells).astype(bool).reshape(grid.bins)

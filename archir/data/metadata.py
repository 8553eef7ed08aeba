"""What a model file says about the data that its network was trained on: names of classes, and how images are resized.

The description of the data (`images`) is a part of a run's records; see `archir_torch.data.describe_data`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

from archir.data.resizing import Interpolation, Resizing

LABELS, RESIZING = "labels", "resizing"


def training_data_metadata(images: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata of a model from the description of its training data.

    `labels` is a JSON list of the names of the classes, `resizing` a JSON object with `center_crop` and
    `interpolation`; each is left out if there is nothing to say.
    """
    classes, resizing = images.get("classes"), images.get("resizing")
    metadata = labels_metadata(classes or ())
    return metadata if resizing in (None, asdict(Resizing())) else metadata | {RESIZING: json.dumps(resizing)}


def labels_metadata(labels: Sequence[str]) -> dict[str, str]:
    """Return the metadata of a model with the names of its classes; empty without names."""
    return {LABELS: json.dumps([*labels], ensure_ascii=False)} if labels else {}


def labels_in(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the classes in the metadata of a model; () if there are none, or no valid ones."""
    try:
        labels = json.loads(metadata.get(LABELS, "[]"))
    except (ValueError, RecursionError):
        return ()
    is_valid = isinstance(labels, list) and all(isinstance(label, str) and label for label in labels)
    return tuple(labels) if is_valid else ()


def training_data_entries(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the valid entries of a model's metadata that say what data the network was trained on."""
    entries = {RESIZING: metadata[RESIZING]} if resizing_in(metadata) != asdict(Resizing()) else {}
    return labels_metadata(labels_in(metadata)) | entries


def resizing_of(description: Any) -> Resizing:
    """Return the resizing that a description names; the default if it is not a valid description."""
    fields = description if isinstance(description, dict) else {}
    share, interpolation = fields.get("center_crop", 1.0), fields.get("interpolation", "bilinear")
    if not isinstance(share, int | float) or not 0.1 <= share <= 1 or interpolation not in get_args(Interpolation):
        return Resizing()
    return Resizing(float(share), interpolation)


def resizing_in(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the valid description of a resizing in the metadata of a model; that of the default if there is none."""
    try:
        return asdict(resizing_of(json.loads(metadata.get(RESIZING, "{}"))))
    except (ValueError, RecursionError):
        return asdict(Resizing())

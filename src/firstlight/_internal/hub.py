"""Files of the Hugging Face hub, by addresses such as ``hf://models/OWNER/NAME/model.safetensors``.

huggingface_hub downloads and keeps them; what it does not do is to compare the bytes with the checksum that the hub
names. Nothing is downloaded unless that was allowed, so that an address in a script or a page never opens a connection
by itself.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from firstlight._internal.cluster.cluster_worker import may_fetch
from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight._internal.files import sha256_of
from firstlight._internal.optional import optional_module

ALLOWED = "FIRSTLIGHT_HUB"
_ADDRESS = re.compile(
    r"hf:/{1,2}(?P<kind>datasets|models)/(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/@]+))?/(?P<file>.+)"
)


def is_on_hub(name: str | Path) -> bool:
    """Whether a name is an address of the hub; a `Path` has only one of the two slashes left."""
    return str(name).startswith("hf:/")


def hub_file(address: str | Path, *, kind: str, endings: tuple[str, ...]) -> Path:
    """Return a file of the hub in the cache of huggingface_hub, downloaded if that is allowed, its checksum compared.

    Parameters
    ----------
    address : str or Path
        ``hf://KIND/OWNER/NAME/FILE``, or ``hf://KIND/OWNER/NAME@REVISION/FILE``.
    kind : str
        "datasets" or "models".
    endings : tuple of str
        Of the files that can be read.
    """
    parts = _ADDRESS.fullmatch(str(address))
    if parts is None or parts["kind"] != kind or not parts["file"].lower().endswith(endings):
        raise InvalidInput(
            f"An address of the hub must be hf://{kind}/OWNER/NAME/FILE, with @REVISION after the name if need be "
            f"and a file that ends in {', '.join(endings)}; got {address}."
        )
    hub = optional_module("huggingface_hub", extra="hub", purpose=str(address))
    online = os.environ.get(ALLOWED) == "online" and may_fetch()
    try:
        file = Path(
            hub.hf_hub_download(
                parts["repo"], parts["file"], repo_type=kind.removesuffix("s"), revision=parts["revision"],
                local_files_only=not online, endpoint=os.environ.get("HF_ENDPOINT"),
            )
        )  # fmt: skip
    except (OSError, ValueError, RuntimeError, hub.errors.HfHubHTTPError) as error:
        raise DataUnavailable(_reason(address, error, online=online)) from error
    _demand_checksum(file, address)
    return file


def _reason(address: str | Path, error: Exception, *, online: bool) -> str:
    if online:
        said: Any = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        return f"{address} cannot be downloaded: {said}."
    return (
        f"{address} is not in the cache of huggingface_hub, and nothing is downloaded unless you allow it: set "
        f"{ALLOWED}=online and run this again. From then on it is read from the cache."
    )


def _demand_checksum(file: Path, address: str | Path) -> None:
    """Compare a file with the checksum after which the cache names it: what the hub said it would send."""
    blob = file.resolve()
    if re.fullmatch("[0-9a-f]{64}", blob.name):
        found = sha256_of(blob)
    elif re.fullmatch("[0-9a-f]{40}", blob.name):  # small files: what git calls their content
        content = blob.read_bytes()
        found = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    else:
        raise InvalidInput(
            f"{address} cannot be checked: the cache at {blob.parent} has no checksums, as on file systems without "
            "links. Give the path of a copy that you trust instead."
        )
    if found != blob.name:
        raise InvalidInput(
            f"{address} has the checksum {found[:16]}... instead of {blob.name[:16]}..., which the hub names. It was "
            f"damaged or changed: remove {blob} and download it again."
        )

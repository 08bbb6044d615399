"""The environment of neural-tangents, which needs an old JAX: nothing of it touches the package's own."""

import subprocess
import sys
import venv
from pathlib import Path

# the newest release, with the newest JAX (and converter) with which it can be imported
PACKAGES = ("neural-tangents==0.6.5", "jax==0.5.3", "jaxlib==0.5.3", "tf2jax==0.3.6")
FOLDER = Path.home() / ".cache" / "firstlight-benchmark-peer"


def python_of(folder: Path) -> Path:
    """Make the environment, unless it is there, and return its Python."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            sys.exit(
                f"`--peer` must be a new or empty folder, or one that was finished; remove {folder} or name another."
            )
        print(f"Making an environment for {PACKAGES[0]} ...", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (folder / "ready").touch()
    return python

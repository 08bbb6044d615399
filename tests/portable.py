"""Run tests as other processors would: `python tests/portable.py [PATH ...]`, or `make test-portable`.

The libraries below torch, NumPy and Numba choose their routines by the processor they find. Their own
switches make them choose as a smaller one would, which changes the order of sums and so the last bits. This
emulates x86 processors on an x86 processor with AVX2 or more; on another machine the switches do nothing.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# What computes with matrix products, convolutions and compiled loops, and what promises equal bits. The rest
# shows, stores or describes numbers; `make test-portable PORTABLE="tests src"` runs all of it.
SENSITIVE = [
    "tests/internal/test_memory_layout.py", "tests/internal/test_executor.py", "tests/internal", "tests/questions/kernel/test_command.py",
    "tests/data/test_interventions_pixels.py", "tests/data/test_interventions_labels.py", "tests/training",
    "tests/models/test_linearized.py", "tests/models/test_fourier.py", "tests/maths", "tests/kernels",
    "tests/theory", "tests/theorems", "tests/measures", "tests/estimators",
]  # fmt: skip

AVX2 = {
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "OPENBLAS_CORETYPE": "Haswell",
    "NUMBA_CPU_NAME": "haswell",
}
OLDEST = {
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
    "ATEN_CPU_CAPABILITY": "default",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NUMBA_CPU_NAME": "generic",
}
# libraries need not agree: MKL, for one, takes its slowest routines on processors it does not know
MIXED = {**AVX2, "MKL_CBWR": "COMPATIBLE", "NUMBA_CPU_NAME": "generic"}
del MIXED["MKL_ENABLE_INSTRUCTIONS"]

PROCESSORS = {
    "AVX2, one thread": ({**AVX2, "FIRSTLIGHT_TEST_THREADS": "1"}, "AVX512"),
    "AVX2, two threads": ({**AVX2, "FIRSTLIGHT_TEST_THREADS": "2"}, "AVX512"),
    "no vectors, one thread": ({**OLDEST, "FIRSTLIGHT_TEST_THREADS": "1"}, "AVX2"),
    "no vectors, two threads": ({**OLDEST, "FIRSTLIGHT_TEST_THREADS": "2"}, "AVX2"),
    "mixed, two threads": ({**MIXED, "FIRSTLIGHT_TEST_THREADS": "2"}, "AVX512"),
    "this processor, two threads": ({"FIRSTLIGHT_TEST_THREADS": "2"}, None),
}


def numpy_features(above: str | None) -> str:
    """Names that this NumPy dispatches on and this processor has, from AVX-512 or from AVX2 upwards."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    present = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    wide = [name for name in present if name.startswith("AVX512") or name == "X86_V4"]
    if above == "AVX512":
        return " ".join(wide)
    if above == "AVX2":
        return " ".join(name for name in present if name in (*wide, "X86_V3", "AVX2", "FMA3"))
    return ""


def main(paths: list[str]) -> int:
    """Run pytest once per processor and return how many failed."""
    jobs = os.environ.get("JOBS", "0")  # processes of pytest; 0 is this one
    chosen = os.environ.get("PROCESSOR")
    failed = []
    for name, (switches, above) in PROCESSORS.items():
        if chosen and name != chosen:
            continue
        print(f"\n=== {name}", flush=True)
        # threads that wait must not spin: pytest's processes, or other work, need the cores
        environment = {**os.environ, "CI": "1", "OMP_WAIT_POLICY": "PASSIVE", **switches}
        if features := numpy_features(above):
            environment["NPY_DISABLE_CPU_FEATURES"] = features
        command = [sys.executable, "-m", "pytest", "-q", "-n", jobs, "--dist", "worksteal"]
        if subprocess.run([*command, *(paths or SENSITIVE)], cwd=ROOT, env=environment).returncode:
            failed.append(name)
    print("\nFailed as " + "; ".join(failed) if failed else "\nAll processors passed.")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

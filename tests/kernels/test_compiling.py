import sys

import pytest

import warm
from limits import COMMAND

SCRIPT = """
import resource
from pathlib import Path
import torch
from firstlight.kernels import ConvKernel, kernel_gram
size = 1024 * int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0])
resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20),) * 2)
kernel_gram(torch.rand(4, 1, 5, 5), kernel=ConvKernel(depth=1), show=False)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there is the size of a process told so")
def test_a_loop_that_lacks_memory_to_be_compiled_is_an_error_and_not_the_end_of_the_process():
    ended = warm.run(["-c", SCRIPT], timeout=COMMAND)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "MemoryError"

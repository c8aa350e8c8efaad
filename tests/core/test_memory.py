"""What frameworks say when memory runs out: each text as it was really written, those of a GPU or TPU as documented."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from raybench.core.memory import asked_bytes, describe, format_bytes, looks_like_oom, size

MIB, GIB = 1 << 20, 1 << 30

TEXTS = {
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "235929600 bytes. Error code 12 (Cannot allocate memory)": 235929600,
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.75 GiB of which 1.06 GiB is "
    "free. Including non-PyTorch memory, this process has 13.68 GiB memory in use.": 2 * GIB,
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.90 GiB total capacity; 14.9 GiB allocated)": 20 * MIB,
    "MPS backend out of memory (MPS allocated: 8.82 GB, other allocations: 30.00 MB, max allowed: 9.07 GB). Tried to "
    "allocate 256.00 MB on private pool.": 256 * MIB,
    "W0000 00:00:1795280541.168508   28726 bfc_allocator.cc:502] Allocator (mklcpu) ran out of memory trying to "
    "allocate 450.00MiB (rounded to 471859200)requested by op sequential_1/conv2d_1/Relu": 450 * MIB,
    "Error preparing computation: Out of memory allocating 5226414080 bytes.": 5226414080,
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.": 8589934592,
    "RESOURCE_EXHAUSTED: Attempting to allocate 1.2G. That was not possible. There are 800M free.": round(1.2 * GIB),
    "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 15.06M.": round(15.06 * MIB),
    "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc": None,
    "Operation received an exception:Status: 1, message: could not create a primitive, in file "
    "tensorflow/core/kernels/mkl/mkl_conv_grad_input_ops.cc:546": None,
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`": None,
}


OTHER_TEXTS = ["", "index out of range", "Allocation of 83886080 exceeds 10% of free system memory."]


def test_every_wording_is_known():
    assert {text: asked_bytes(text) for text in TEXTS} == TEXTS
    assert [text for text in TEXTS if not looks_like_oom(text)] == []


def test_other_words_are_no_sign():
    assert [text for text in OTHER_TEXTS if looks_like_oom(text) or asked_bytes(text) is not None] == []


def test_torch_and_numpy_still_say_it_so():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert looks_like_oom(str(caught.value))
    assert asked_bytes(str(caught.value)) == 1 << 60
    with pytest.raises(MemoryError) as told:
        np.empty(1 << 50, dtype=np.uint8)
    assert asked_bytes(str(told.value)) == 1 << 50


def test_the_last_of_several_is_what_failed():
    first, second = list(TEXTS)[1], list(TEXTS)[2]
    assert asked_bytes(f"{first}\n{second}") == TEXTS[second]


def test_only_what_is_known_is_told():
    assert describe("std::bad_alloc", None, 0) == {}
    assert describe("Tried to allocate 1.00 KiB", 5, 7) == {"asked_bytes": 1024, "peak_bytes": 5, "limit_bytes": 7}


def test_words_for_a_person():
    error = {"phase": "evaluate", "asked_bytes": 2 * GIB, "peak_bytes": 1536 * MIB, "limit_bytes": 3 * GIB}
    assert format_bytes(error) == "in evaluate, asked 2.0 GiB, peak 1.5 GiB, limit 3.0 GiB"
    assert format_bytes({"phase": "train"}) == "in train"
    assert [size(count) for count in (0, 1023, 1024, 1 << 40, 1 << 50)] == [
        "0 bytes",
        "1023 bytes",
        "1.0 KiB",
        "1.0 TiB",
        "1.0 PiB",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a limit on memory")
@pytest.mark.parametrize(("allowed", "asked", "kept"), [(0, GIB, GIB), (4 * GIB, GIB, GIB), (GIB, 4 * GIB, GIB)])
def test_memory_limit_is_set_and_removed(allowed, asked, kept):
    code = (
        "import resource, sys\n"
        "from raybench.core import memory\n"
        "allowed, asked = map(int, sys.argv[1:])\n"
        "if allowed:\n"
        "    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))\n"
        "else:\n"
        "    assert not memory.limit_applies(asked)\n"
        "memory.limit(asked)\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0], memory.limit_applies(asked))\n"
        "memory.remove_limit()\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0])\n"
    )
    command = [sys.executable, "-c", code, str(allowed), str(asked)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert said == [str(kept), "True", str(allowed or -1)]

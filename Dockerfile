# raybench in a container, for one kind of hardware: cpu (default), cuda or rocm. None of the three has been built yet.
#   build  docker build -t raybench --build-arg HARDWARE=cuda .
#   run    docker run --rm --shm-size 1g -v "$PWD:/work" raybench grid quickstart
#   with cuda also --gpus all; with rocm --device /dev/kfd --device /dev/dri --group-add video
ARG HARDWARE=cpu

FROM ubuntu:24.04 AS cpu
ENV UV_TORCH_BACKEND=cpu

# torch brings CUDA's libraries; the driver comes from the machine.
FROM ubuntu:24.04 AS cuda
ENV UV_TORCH_BACKEND=cu130 NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

# This image has amd-smi, by which raybench finds AMD GPUs.
FROM rocm/dev-ubuntu-24.04:7.0-complete AS rocm
ENV UV_TORCH_BACKEND=rocm7.0

# hadolint ignore=DL3006
FROM ${HARDWARE}
# The compiler is for `compile`, which generates C++ on a CPU and C on a GPU.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        ca-certificates g++ python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/raybench \
    && /opt/raybench/bin/pip install --no-cache-dir uv
ENV PATH=/opt/raybench/bin:$PATH VIRTUAL_ENV=/opt/raybench

COPY pyproject.toml README.md LICENSE /src/
COPY grids /src/grids
COPY raybench /src/raybench
RUN uv pip install --no-cache /src

WORKDIR /work
ENTRYPOINT ["raybench"]
CMD ["--help"]

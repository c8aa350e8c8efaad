# raybench in a container.
#   CPU   docker build -t raybench --build-arg TORCH="…" .     (what follows `pip install` in the command that pytorch.org shows for CPUs)
#   CUDA  docker build -t raybench --build-arg BASE=nvidia/cuda:13.0.1-base-ubuntu24.04 .
#   run   docker run --rm --shm-size 1g -v "$PWD:/work" raybench grid quickstart        (with CUDA also --gpus all)
ARG BASE=ubuntu:24.04
FROM ${BASE}

# The compiler is for `compile`, which generates C++ on a CPU and C on a GPU.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        ca-certificates g++ python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/raybench
ENV PATH=/opt/raybench/bin:$PATH

ARG TORCH=torch
RUN pip install --no-cache-dir ${TORCH}

COPY pyproject.toml README.md LICENSE /src/
COPY grids /src/grids
COPY raybench /src/raybench
RUN pip install --no-cache-dir /src

WORKDIR /work
ENTRYPOINT ["raybench"]
CMD ["--help"]

#!/usr/bin/env bash
# Pack what a GPU machine without network needs: pack.sh DATA [ORIGINALS]. See README.md. It needs a network, pip, xz and strip.
set -euo pipefail
kit=$(cd "$(dirname "$0")" && pwd)
data=$(cd "$1" && pwd)
originals=${2:-}
cd "$kit/../.."
python=${PYTHON:-python3}
work=${WORK:-${TMPDIR:-/tmp}/raybench-gpu-pack} # kept: the next run packs only the data again
mkdir -p "$work/wheels"

if [ ! "$work/site.tar.xz" -nt "$kit/wheels.txt" ]; then
  tags=()
  for tag in manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014 manylinux1; do tags+=(--platform "${tag}_x86_64"); done
  grep -v '^#' "$kit/wheels.txt" | xargs "$python" -m pip download --quiet --no-deps --only-binary=:all: \
    --python-version "${PYTHON_VERSION:-3.12}" --implementation cp "${tags[@]}" --dest "$work/wheels"
  rm -rf "$work/site"
  "$python" -m pip install --quiet --no-deps --no-compile --target "$work/site" --only-binary=:all: \
    --python-version "${PYTHON_VERSION:-3.12}" --implementation cp "${tags[@]}" "$work"/wheels/*.whl
  (
    cd "$work/site"
    rm -rf bin ray/{jars,rllib,llm,serve,dashboard/client} mlflow/assistant/skills
    find . -name '*.pyi' -delete
    servers=(ray/core/src/ray/gcs/gcs_server ray/core/src/ray/raylet/raylet)
    find . \( -name '*.so' -o -path ./${servers[0]} -o -path ./${servers[1]} \) -exec strip --strip-unneeded {} \;
    # The three large binaries side by side: they share most of their code, which a dictionary of 192 MiB sees.
    { printf '%s\0' ray/_raylet.so "${servers[@]}" && find . -type f -printf '%P\0' | sort -z; } | awk 'BEGIN {RS = ORS = "\0"} !seen[$0]++' |
      tar c --owner=0 --group=0 --mtime=@0 --null -T - | xz -T1 --x86 --lzma2=preset=6,dict=192MiB > "$work/site.part"
  )
  mv "$work/site.part" "$work/site.tar.xz"
fi

rm -rf gpu_pack && mkdir gpu_pack
echo '*' > gpu_pack/.gitignore
"$python" - "$data" "$work/site.tar.xz" "$originals" <<'P'
import shutil
import subprocess
import sys
from pathlib import Path

LIMIT = 62 << 20  # of a piece with the checkout, with some room
data, site, originals = map(Path, sys.argv[1:])
names = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout.split(b"\0")
tree = sum(Path(name.decode()).stat().st_size for name in names if name)
files = [(site, Path("site.tar.xz"))]
files += [(path, Path("originals") / path.name) for path in originals.glob("*") if sys.argv[3] and path.is_file()]
order = ("unpack.py", "cifar10", "mnist", "imdb", "*")
found = dict.fromkeys(path for name in order for top in sorted(data.glob(name)) for path in (sorted(top.rglob("*")) or [top]))
files += [(path, "data" / path.relative_to(data)) for path in found if path.is_file() and not path.name.startswith(".")]
sizes = [tree] * 3
for path, name in files:  # whole files, in this order, into the first piece that has room
    size = path.stat().st_size
    piece = next((number for number, used in enumerate(sizes) if used + size <= LIMIT), None)
    if piece is None:
        sys.exit(f"{path} does not fit into three pieces")
    sizes[piece] += size
    target = Path("gpu_pack") / str(piece + 1) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)
for number, used in enumerate(sizes, 1):
    print(f"gpu_pack/{number}: {(used - tree) / 1e6:.1f} MB beside the checkout's {tree / 1e6:.1f} MB:", end=" ")
    print(*sorted({"/".join(path.parts[2:4]) for path in Path("gpu_pack", str(number)).rglob("*") if path.is_file()}))
P

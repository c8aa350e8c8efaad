#!/usr/bin/env bash
# Run raybench on a GPU machine without network, from the checkout's root: run.sh part 1|2|3, run.sh NAME…, run.sh plan. See README.md.
set -u
kit=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$kit/../.." && pwd)
cd "$root" || exit 2
work=${WORK:-/var/tmp/raybench-gpu}
out=${OUT:-$work/out}
python=${PYTHON:-python3}
until=${UNTIL:-525}
tiny=${TINY:-} # a rehearsal on the CPU
results=${RESULTS:-$work/results}
tests=${TESTS:-not grid} grid_tests=grid
[ -z "$tiny" ] || tests=clock grid_tests=clock_waits
mkdir -p "$work"/{logs,packed,site,originals} "$out"
export PYTHONPATH="$work/site:$root" RAYBENCH_DATA="$work/data" PYTHONUNBUFFERED=1 MPLBACKEND=Agg XDG_CACHE_HOME="$work/cache"
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 COLUMNS=150
[ -z "$tiny" ] || export CUDA_VISIBLE_DEVICES=
summary=$work/summary.txt
gpu=${tiny:+cpu}
gpu=${gpu:-cuda}

say() { echo "$*" | tee -a "$summary"; }
synthetic() { [ -f "$work/have.$1" ] || echo --synthetic-data; }

step() { # NAME SECONDS COMMAND…: ended by Ctrl-C at its limit, killed 30 s later
  local name=$1 limit=$2 start=$SECONDS room=$((until - SECONDS - 40)) code
  shift 2
  if [ -n "${plan:-}" ]; then
    printf '  %s (at most %s s): %s\n' "$name" "$limit" "${*//$root\//}"
    return
  fi
  [ "$room" -ge 15 ] || { say "SKIP $name: no time left"; return; }
  say "---- $name: ${*//$root\//}"
  timeout -s INT -k 30 $((limit < room ? limit : room)) "$@" > "$work/logs/$name.log" 2>&1 < /dev/null
  code=$?
  tail -n 12 "$work/logs/$name.log" | cut -c1-300
  say "==== $name: exit $code, $((SECONDS - start)) s, $(awk '/MemTotal|MemAvailable/ {printf "%s %.1f GiB ", $1, $2 / 1048576}' /proc/meminfo)"
  take_home
}

grid() { # NAME SECONDS FILE OPTIONS…
  local name=$1 limit=$2
  shift 2
  step "$name" "$limit" "$python" -m raybench grid ${tiny:+--repeats 1} "$@" --results "$results"
}

take_home() ( # after each step, so that nothing is lost but the last one
  flock 9
  cp "$summary" "$work"/junit*.xml "$out" 2> /dev/null
  (cd "$work/logs" && rm -rf ends && mkdir ends && for log in *.log; do tail -c 400000 "$log" > "ends/$log"; done && tar czf "$out/logs.tar.gz" ends)
  timeout -k 5 60 "$python" "$kit/collect.py" "$work/results" "$out" > "$work/logs/collect.log" 2>&1 || say "collect.py failed: $(tail -1 "$work/logs/collect.log")"
) 9> "$work/home.lock"

setup() {
  for piece in gpu_pack/[1-9]; do
    [ -d "$piece/data" ] && cp -ru "$piece"/data/. "$work/packed/"
    [ -d "$piece/originals" ] && cp -ru "$piece"/originals/. "$work/originals/"
    [ -f "$piece/site.tar.xz" ] && [ ! -d "$work/site/ray" ] &&
      "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="tar")' "$piece/site.tar.xz" "$work/site" &&
      timeout 60 "$python" -m compileall -q -j 0 "$work/site" > /dev/null
  done
  [ -d "$work/site/ray" ] || { say "STOP: no Ray in $work/site: bring gpu_pack/1"; exit 3; }
  # PYTHONPATH is not for all: a test starts processes without it.
  "$python" -c "import pathlib, sysconfig; pathlib.Path(sysconfig.get_path('purelib'), 'raybench_gpu.pth').write_text('$work/site\n$root\n')" ||
    say "no .pth file could be written: some tests will not find Ray"
  if [ -f "$work/packed/unpack.py" ]; then
    for data in mnist:4 imdb:2 cifar10:4; do # with so many files it is complete
      [ "$(find "$work/packed/${data%:*}" -type f 2> /dev/null | wc -l)" -lt "${data#*:}" ] || [ -f "$work/have.${data%:*}" ] ||
        { "$python" "$work/packed/unpack.py" --to "$work/data" "${data%:*}" && touch "$work/have.${data%:*}"; }
    done
  else
    ln -sfn "$work/packed" "$work/data"
    for data in mnist:mnist imdb:aclImdb_v1.tar.gz cifar10:cifar-10-batches-bin; do [ ! -e "$work/data/${data#*:}" ] || touch "$work/have.${data%:*}"; done
  fi
  say "setup: $SECONDS s; data: $(cd "$work" && ls have.* 2> /dev/null | tr '\n' ' ')"
}

look() {
  nvidia-smi && nvidia-smi -q -d CLOCK,POWER,PERFORMANCE,ECC,COMPUTE | head -120
  uname -a; nproc; free -g; df -h /tmp /dev/shm; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/memory.max /proc/loadavg; lscpu | head -25
  env | grep -E '^(CUDA|NVIDIA|LD_|TORCH|TRITON|RAY|PYTHON)'
  "$python" "$kit/check.py" "$work/results"
}

run_tests() { # FILE WHICH
  "$python" -m pytest --noconftest -o addopts= -o filterwarnings= -p no:cacheprovider -m "${tiny:+not }gpu" --import-mode=importlib \
    -rfE --tb=short -v --durations=12 --junitxml="$work/$1.xml" -k "$2" tests/devices/test_on_hardware.py
}
export -f look run_tests
export python kit work tiny

one() {
  local few=() onto=() smoke=() programs=${PROGRAMS:-{airbench94.py,airbench94_compiled.py\}}
  [ -z "$tiny" ] || smoke=(--smoke --set params.train_examples=2048 --set params.val_examples=64) few=(--set steps_per_epoch=2 --set epochs=2) onto=(--set devices.gpu.kind=cpu) programs=airbench94.py
  case $1 in
    check) step check 90 bash -c look ;;
    devices) step devices 60 "$python" -m raybench devices ;;
    quick) grid quick 240 grids/quickstart.yaml "${few[@]}" ;;
    mlflow) step mlflow 60 "$python" "$kit/check.py" "$work/results" ;;
    tests) step tests 240 bash -c "run_tests junit '$tests'" ;;
    testsgrid) step testsgrid 150 bash -c "run_tests junit_grid $grid_tests" ;;
    until) grid until 150 grids/quickstart.yaml --set name=until --set 'axes.weight_decay=[0.0]' --set 'axes.count=[1]' "${few[@]}" --until 5% --repeats $((tiny ? 4 : 10)) ;;
    gpt) grid gpt 420 grids/gpt_which_gpu.yaml --set 'devices={gpu: {kind: cuda, price_per_hour: 3}}' --set 'axes.device=[gpu]' --set 'axes.count=[1]' \
      --set 'baseline={compile: false}' --set budget.time=${BUDGET:-60s} --repeats $((tiny ? 1 : ${REPEATS:-2})) "${onto[@]}" \
      ${tiny:+--set 'model={layers: 2, width: 64, heads: 2, context: 32, vocabulary: 256}' --set 'axes.compile=[false]' --set budget.time=3s --set examples.val=16} ;;
    published) step published 300 "$python" -m raybench run --name published --device "$gpu" --results "$results" \
      --metric 'train/seconds=^seconds (\S+)' --metric 'val/accuracy=accuracy (\S+)' --repeats $((tiny ? 1 : ${REPEATS:-2})) \
      -- "$python" "$kit/published.py" ${tiny:+--short --trainings 1} "$work/originals/$programs" ;;
    modes) grid modes 240 "$kit/grids/modes.yaml" $(synthetic cifar10) "${onto[@]}" ${tiny:+--set steps_per_epoch=1 --set batch_size=64 --set 'examples={val: 200}' --set evaluation_batch_size=200 --set 'axes.precision=[fp32]' --set 'axes.compile=[false]' --set 'baseline={}'} ;;
    oom) grid oom 120 "$kit/grids/oom.yaml" "${onto[@]}" ${tiny:+--set 'axes.batch_size=[8]' --set 'model={layers: 1, width: 32, heads: 2, context: 32, vocabulary: 256}'} ;;
    pytorch) grid pytorch 120 examples/pytorch_loop/grid.yaml --set axes.device=available --set 'devices={}' --set 'baseline={device: cpu}' \
      --set 'axes.batch_size=[256]' --set params.train_examples=$((tiny ? 256 : 8192)) ;;
    bert) grid bert 120 examples/transformers_imdb/grid.yaml --set 'axes={device: available, batch_size: [100]}' --set 'baseline={device: cpu}' \
      --set epochs=2 --set params.train_examples=$((tiny ? 100 : 2000)) --set params.val_examples=$((tiny ? 100 : 1000)) ;;
    jax) grid jax 90 examples/jax_loop/grid.yaml --set 'axes={device: available, batch_size: [640]}' --set 'baseline={device: cpu}' ;;
    davidnet) grid davidnet 240 grids/cifar_tpu_vs_gpu.yaml $(synthetic cifar10) --where device=gpu --where batch_size=512 \
      --where weight_decay=5.0e-4 --set 'axes.compile=[false, default]' --set 'baseline={compile: false}' "${few[@]}" "${onto[@]}" \
      ${tiny:+--set 'axes.compile=[false]' --set 'baseline={}' --set 'overrides=[]' --set 'include=[]' --set 'examples={val: 200}' --set evaluation_batch_size=200} ;;
    airbench) grid airbench 120 examples/airbench94/grid.yaml --set 'axes.compile=[false]' --set 'baseline={}' --repeats $((tiny ? 1 : ${REPEATS:-5})) "${onto[@]}" "${smoke[@]}" ;;
    airbenchc) grid airbenchc 500 examples/airbench94/grid.yaml --repeats $((tiny ? 1 : ${REPEATS:-3})) "${onto[@]}" "${smoke[@]}" ${tiny:+--set 'axes.compile=[false]' --set 'baseline={}'} ;;
    mnist) grid mnist 150 grids/mnist.yaml $(synthetic mnist) --repeats $((tiny ? 1 : 3)) "${few[@]}" ;;
    lstm) grid lstm 150 grids/imdb_cpu_vs_gpu.yaml $(synthetic imdb) --set 'devices={}' --set 'axes={device: available}' --set 'baseline={device: cpu}' --set framework=torch \
      --set steps_per_epoch=$((tiny ? 1 : 40)) --set epochs=3 --set 'examples={val: 500}' ;;
    *) say "no step $1" && return 1 ;;
  esac
}

parts=("" "check devices quick mlflow tests testsgrid until" "gpt published modes oom pytorch bert jax" "davidnet airbench airbenchc mnist lstm")
if [ "${1:-}" = plan ]; then
  plan=yes
  for part in 1 2 3; do echo "part $part" && for name in ${parts[part]}; do one "$name"; done; done
  exit
fi
[ $# -gt 0 ] || { sed -n 2p "$0"; exit 2; }
say "#### $* on $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null || echo 'no GPU'), $(date -u +%FT%TZ)"
setup
[ "$1" = part ] && set -- ${parts[$2]}
for name in "$@"; do one "$name"; done
grep -E '^(====|SKIP|STOP|####)' "$summary"
ls -l "$out"

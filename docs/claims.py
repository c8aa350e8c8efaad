"""Write docs/claims.md: claims of 2025 and 2026, judged by raybench from the logs that their authors published.

python docs/claims.py              write the page from notebooks/published/claims/*.csv
python docs/claims.py --from DIR   first read these CSVs again from clones of the repositories in DIR
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from raybench.analysis.chain import chains
from raybench.core.options import ReportOptions
from raybench.reporting import chain, figures
from raybench.reporting.build import from_grid, one_grid, versions
from raybench.reporting.words.best import best_texts
from raybench.reporting.words.status import mean_sentences
from raybench.sources import mlperf, program_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks" / "published" / "claims"
PAGE = ROOT / "docs" / "claims.md"
IMAGES = ROOT / "docs" / "claims"

MODDED = "KellerJordan/modded-nanogpt"
GOLF = "openai/parameter-golf"
COMMITS = {
    MODDED: ("f411b3d346aa52d3504324ca93c230fd84c6c07f", "MIT"),
    GOLF: ("4908dc46f21ed3fdd08d2fdca285deb2194b9599", "MIT"),
    "karpathy/nanochat": ("92d63d4e8bb4df75c3b71618f31ddde2378b2bcd", "MIT"),
    "mlcommons/training_results_v5.0": ("0fdc28f013256aea84fa36fdaf1e0fa46094b18c", "Apache-2.0"),
    "mlcommons/training_results_v5.1": ("441d65f4445cd59687466533fd9f55399136e7a4", "Apache-2.0"),
}
"""The commit that is read, and the licence, of each repository."""

SHORT, GOLF_RECORDS = "records/track_1_short/", "records/track_10min_16mb/"
CORE = "mean val/core>=0.256525"
SPEEDRUN = "mean val/loss<=3.28"
LORA = "llama2_70b_lora/result_"


@dataclass(frozen=True)
class Claim:
    """A claim, and where its runs are.

    Attributes:
        name: of its CSV.
        says: the claim in its author's numbers, with who says it and where.
        repository: of the logs; of files that begin with a name and a colon, the one with this end.
        files: patterns of paths by the value of the compared axis, the older one first.
        note: what else a reader should know; a number in it is computed by `numbers`.
        by_quality: whether the claim is about the quality at equal training time, and no time is compared.
        targets: values of `--target`, with one report for each; an empty one keeps the target of the CSV.
        is_chain: whether it is about a chain of records, each against the one before.
    """

    name: str
    title: str
    says: str
    repository: str
    files: dict[str, list[str]]
    note: str = ""
    by_quality: bool = False
    targets: tuple[str, ...] = ("",)
    is_chain: bool = False


CLAIMS = (
    Claim(
        "nanochat_run4",
        "nanochat, run 4: GPT-2 in 2.02 hours",
        "“Mean is 0.25714 (higher than the GPT-2 threshold needed)” of 7 runs of 2.02 hours; the threshold is "
        "0.256525. [Leaderboard](https://github.com/karpathy/nanochat/blob/master/dev/LEADERBOARD.md), run 4.",
        "karpathy/nanochat",
        {},
        "Two rules: with a restart after each miss, and by the mean, as the leaderboard has it. The author calls CORE "
        "“a little bit noisy”.",
        targets=("", CORE),
    ),
    Claim(
        "nanochat_records",
        "nanochat, records 1 to 4: 3.04 → 2.02 hours",
        "3.04, 2.91, 2.76 and 2.02 hours, each in a run that reached the threshold, the fourth in the mean of 7. "
        "[Leaderboard](https://github.com/karpathy/nanochat/blob/master/dev/LEADERBOARD.md).",
        "karpathy/nanochat",
        {},
        "Of records 5 and 6 only the means of 5 runs are published.",
        targets=(CORE,),
        is_chain=True,
    ),
    Claim(
        "modded_76",
        "modded-nanogpt, record 76: backward transpose kernel",
        "1.453 → 1.446 minutes on 8 H100.",
        MODDED,
        {
            name: [f"{SHORT}2026-02-28_TransposeCopyBackward/{path}/"]
            for name, path in (("before", "baseline"), ("record", "this_pr"))
        },
        targets=(SPEEDRUN,),
    ),
    Claim(
        "modded_78",
        "modded-nanogpt, record 78: tighter bound on documents",
        "“~500ms speed improvement”; 1.435 → 1.426 minutes on 8 H100.",
        MODDED,
        {
            name: [f"{SHORT}2026-03-22_VarlenMaxDocs/{path}/"]
            for name, path in (("before", "baseline"), ("record", "combined"))
        },
        targets=(SPEEDRUN,),
    ),
    Claim(
        "modded_80",
        "modded-nanogpt, record 80: Muon by pairs of heads",
        "“We can reach the target loss in 10 less steps, saving ~0.4s.”",
        MODDED,
        {
            name: [f"{SHORT}2026-04-08_PairedHeadMuon/logs/{path}"]
            for name, path in (("before", r"baseline\d-1490"), ("record", r"split_qk\d-1480"))
        },
        targets=(SPEEDRUN,),
    ),
    Claim(
        "modded_81",
        "modded-nanogpt, record 81: MUDD skip connections",
        "1.406 → 1.363 minutes on 8 H100, with 65 fewer steps.",
        MODDED,
        {
            name: [f"{SHORT}2026-04-22_MuddFormer/{path}/"]
            for name, path in (("before", "baseline-s1480"), ("record", "this_pr_v3"))
        },
        targets=(SPEEDRUN,),
    ),
    Claim(
        "modded_84",
        "modded-nanogpt, record 84: FP8 for an MLP projection",
        "1.328 → 1.320 minutes on 8 H100.",
        MODDED,
        {
            name: [f"{SHORT}2026-05-19_FP8MLPUpProj/{path}/"]
            for name, path in (("before", "baseline"), ("record", "this_record"))
        },
        "The leaderboard asks for p < 0.01, and waives it for records that change the system alone.",
        targets=(SPEEDRUN,),
    ),
    Claim(
        "golf_1514",
        "parameter-golf: Muon momentum 0.97",
        "“Beats PR #1493 (1.0810) by 0.00117 bpb”, 3 seeds each, in 10 minutes on 8 H100; p = 0.020.",
        GOLF,
        {
            "#1493": [f"{GOLF_RECORDS}2026-04-09_SP8192_3LayerRecur_ParResid_QK525_LegalTTT/submission.json"],
            "#1514": [f"{GOLF_RECORDS}2026-04-09_A2_Muon097_3Seed/submission.json"],
        },
        by_quality=True,
    ),
    Claim(
        "golf_1769",
        "parameter-golf: wider clipping of MLP weights",
        "“−0.00096 BPB vs PR #1736 on 5-seed mean”; the leaderboard adds p = 0.063.",
        GOLF,
        {
            "#1736": [f"{GOLF_RECORDS}2026-04-19_SP8192_CaseOps_GatedAttn_QuantGate_Loop45_PhasedTTT/submission.json"],
            "#1769": [
                f"{GOLF_RECORDS}2026-04-22_SP8192_CaseOps_GatedAttn_QuantGate_Loop45_PhasedTTT_MLPClip12/submission.json"
            ],
        },
        "The leaderboard says so too.",
        by_quality=True,
    ),
    Claim(
        "golf_records",
        "parameter-golf: twenty records, each against the one before",
        "1.1147 → 1.0611 bits per byte from 25 March to 27 April 2026 on the "
        "[leaderboard](https://github.com/openai/parameter-golf#leaderboard). The chain has its records of that time "
        "whose `submission.json` has the results of 3 seeds or more; a step may skip others.",
        GOLF,
        {
            f"#{number}": [f"{GOLF_RECORDS}{folder}.*/submission.json"]
            for number, folder in (
                (1019, "2026-03-25_ValCalib"),
                (1204, "2026-03-31_ParallelResiduals"),
                (1218, "2026-04-01_Vocab4096"),
                (1334, "2026-04-04_SP4096"),
                (1394, "2026-04-05_SP8192"),
                (1412, "2026-04-06_SP8192_HessianSDClip"),
                (1413, "2026-04-06_SP8192_QK5"),
                (1477, "2026-04-08_SP8192"),
                (1493, "2026-04-09_SP8192"),
                (1514, "2026-04-09_A2_Muon097"),
                (1530, "2026-04-10_VarLenAttn"),
                (1610, "2026-04-13_VarLenAttn"),
                (1626, "2026-04-14_MultiPhase"),
                (1667, "2026-04-16_SmearGate"),
                (1729, "2026-04-18_PR1626"),
                (1736, "2026-04-19_SP8192"),
                (1769, "2026-04-22_SP8192"),
                (1787, "2026-04-23_SP8192"),
                (1868, "2026-04-29_SmearGate"),
                (1855, "2026-04-27_SP8192_LQER"),
            )
        },
        "A step that is not distinguishable may be real: 3 seeds seldom show so small a one. Some authors measured "
        "more seeds than `submission.json` has. The order is the leaderboard's: #1868 is the rerun with 3 seeds, on "
        "29 April, of #1851, the record before #1855.",
        by_quality=True,
        is_chain=True,
    ),
    Claim(
        "mlperf_mi355x",
        "MLPerf Training v5.1: MI355X against MI300X",
        "“Up to 2.8X faster time-to-train compared to the AMD Instinct MI300X”, Llama 2 70B LoRA, 8 GPUs each. "
        "[AMD, 13 November 2025](https://www.amd.com/en/blogs/2025/accelerating-ai-training.html).",
        "mlcommons/training_results_v5.1",
        {
            "MI300X": ["AMD/results/MI300X_EPYC_9575F_pytorch_llama2_70b/" + LORA],
            "MI355X": ["AMD/results/MI355X_EPYC_9575F_pytorch/" + LORA],
        },
        "It holds. The software differs too, so the ratio is one of systems.",
    ),
    Claim(
        "mlperf_mi325x",
        "MLPerf Training v5.0: MI325X against H200",
        "“The Instinct MI325X platform outperforms the NVIDIA H200 platform by up to 8% when fine-tuning "
        "Llama 2-70B-LoRA.” "
        "[AMD, 4 June 2025](https://www.amd.com/en/blogs/2025/amd-drives-ai-gains-with-mlperf-training-results.html).",
        "mlcommons/training_results_v5.0",
        {
            "H200": [
                f"{system}/{LORA}"
                for system in (
                    "Dell/results/1xXE9680Lx8H200-SXM-141GB",
                    "Dell/results/XE9680x8H200-SXM-141GB",
                    "HPE/results/HPE-Cray-XD670-H200-SXM5-141GB_n1_24.09",
                    "Oracle/results/1xBM.GPU.H200.8",
                )
            ],
            "MI325X": ["AMD/results/MI325X_EPYC_9575F_pytorch/" + LORA],
        },
        "That it is faster holds for these five machines (H200 of Dell, twice, HPE and Oracle; one MI325X), by more "
        "than 8%; HPE's H200 is slower than the other three. Which H200 systems AMD compares with, the sentence does "
        "not say.",
    ),
    Claim(
        "mlperf_405b",
        "MLPerf Training v5.1: Llama 3.1 405B, 2,560 against 2,496 GPUs",
        "18.79 minutes, “45 percent faster than the prior Blackwell-based submission with 2,496 GPUs” "
        "([report of NVIDIA's results](https://epium.com/news/nvidia-sweeps-mlperf-training-v51)).",
        "mlcommons/training_results_v5.1",
        {
            "v5.0, 2496 GPUs": ["v5.0:IBM+CoreWeave+NVIDIA/results/carina_ngpu2496_ngc25.04_nemo/llama31_405b/result_"],
            "v5.1, 2560 GPUs": ["NVIDIA/results/hsg_ngpu2560_ngc25.09_nemo/llama31_405b/result_"],
        },
        "All 6 runs reached the target, and the times hold: 45 % is in the interval.",
    ),
)


def git(clone: Path, *words: str) -> str:
    """Return what git prints."""
    command = ["git", "-C", str(clone), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout


def runs_of(claim: Claim, clones: Path) -> Iterator[dict[str, object]]:
    """Yield the runs of a claim from the logs in clones, a row each, or one for each evaluation of MLPerf."""
    for value, patterns in claim.files.items():
        for pattern in patterns:
            version, _, path = pattern.rpartition(":")
            repository = claim.repository.replace("v5.1", version) if version else claim.repository
            clone = clones / repository.replace("/", "+") / "repo"
            commit = COMMITS[repository][0]
            names = git(clone, "ls-tree", "-r", "--name-only", "-z", commit).split("\0")
            for name in (name for name in names if re.match(re.sub(r"\+", r"\\+", path), name)):
                yield from _rows(claim, value, name, git(clone, "show", f"{commit}:{name}"))


def _rows(claim: Claim, value: str, name: str, text: str) -> Iterator[dict[str, object]]:
    if name.endswith(".json"):
        state = json.loads(text)
        place = {"order": list(claim.files).index(value) + 1} if claim.is_chain else {}
        for seed, result in (state["seeds"] if isinstance(state["seeds"], dict) else state["seed_results"]).items():
            own = {"trial": f"{value} {seed}", "params.submission": value, **place}
            yield {**own, "val/bpb": result["val_bpb"], "seed": seed}
        return
    if not name.endswith((".txt", ".log")):
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.txt"
        path.write_text(text)
        log = mlperf.read(path) if mlperf.MARK in text else program_log.read(path)
    size = len(log.columns["epoch"])
    if not claim.name.startswith("mlperf"):
        loss = next(loss for loss in reversed(log.columns["val/loss"]) if loss is not None)
        yield {
            "trial": Path(name).stem[:18],
            "params.version": value,
            "time_s": round(sum(log.columns["train_s"]), 3),
            "val/loss": loss,
        }
        return
    system = name.split("/results/")[1].split("/")[0]
    bound = log.values.get("target_at_most") or {"llama2_70b_lora": 0.925, "llama31_405b": 5.6}[name.split("/")[-2]]
    for row in range(size):
        yield {
            "trial": f"{system} {Path(name).stem.removeprefix('result_')}",
            "epoch": row + 1,
            "device": value,
            "host": system,
            **{
                column: log.columns[column][row]
                for column in ("elapsed_s", "examples", "val/loss")
                if column in log.columns
            },
            "target_metric": "val/loss",
            "target_at_most": bound,
        }


def extract(clones: Path) -> None:
    """Write the CSVs of all claims with logs."""
    for claim in CLAIMS:
        if claim.files:
            rows = list(runs_of(claim, clones))
            with (FOLDER / f"{claim.name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


def sentences(claim: Claim) -> list[str]:
    """Return what raybench says of the runs of a claim."""
    path, made = str(FOLDER / f"{claim.name}.csv"), []
    for target in claim.targets:
        options = ReportOptions(target=target)
        if claim.is_chain:
            made += chain.sentences([*chains(versions([path], options))])
        else:
            answer = from_grid(one_grid([path], FOLDER), options).answer
            made += [*map(str, best_texts(answer)), *mean_sentences(answer)]
    return made


def figure(claim: Claim) -> Figure | None:
    """Return the steps of a chain, or the speeds of the versions; None for a quality alone."""
    path, options = str(FOLDER / f"{claim.name}.csv"), ReportOptions(target=claim.targets[-1])
    if claim.is_chain:
        return figures.draw_steps(*chains(versions([path], options)))
    try:
        return figures.draw("speed", from_grid(one_grid([path], FOLDER), options).answer)
    except figures.NoDataError:
        return None


def write_figures() -> None:
    """Write the figures of all claims that have one."""
    IMAGES.mkdir(exist_ok=True)
    for claim in CLAIMS:
        if drawn := figure(claim):
            with figures.styled(claim.name):
                drawn.savefig(IMAGES / f"{claim.name}.svg", metadata={"Date": None})


def commands(claim: Claim) -> str:
    """Return the commands that say it."""
    verb = f"raybench report {'--chain ' if claim.is_chain else ''}notebooks/published/claims/{claim.name}.csv"
    return ", ".join(f"`{verb}{f' --target {target!r}' if target else ''}`" for target in claim.targets)


def page() -> str:
    """Return the page."""
    parts = [
        "# Claims of 2025 and 2026, judged\n",
        "Everybody publishes logs, and few publish intervals. These are claims of public leaderboards and of MLPerf, "
        "and what `raybench report` says of the logs behind them. A claim that is “undecided” is not wrong: these runs "
        "do not show it. The authors made and chose the runs; raybench has not run them again. Written by "
        "`docs/claims.py`; a test recomputes the numbers.\n",
    ]
    for claim in CLAIMS:
        commit, licence = COMMITS[claim.repository]
        source = f"[{claim.repository}](https://github.com/{claim.repository}/tree/{commit})"
        parts += [
            f"## {claim.title}\n",
            f"Claim: {claim.says}\n",
            *(f"> {sentence}\n" for sentence in sentences(claim)),
            *([f"![{claim.title}](claims/{claim.name}.svg)\n"] if (IMAGES / f"{claim.name}.svg").exists() else []),
            *([f"{claim.note}\n"] if claim.note else []),
            f"{commands(claim)} · {source}, {licence}\n",
        ]
    return "\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--from"]:
        extract(Path(sys.argv[2]))
    write_figures()
    PAGE.write_text(page())

"""A small BERT, trained from random weights on IMDB with the Trainer of Transformers.

`python train.py` runs it by itself, `raybench grid grid.yaml` compares devices and settings. The lines that raybench
needed are marked with `# raybench`. Nothing is downloaded: the vocabulary is that of the training reviews.
"""

import re
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

import raybench  # raybench
from raybench.integrations.transformers import attach  # raybench


def read_reviews(archive: Path, counts: dict[str, int]) -> dict[str, list[tuple[list[str], int]]]:
    """The words and the label of the first reviews of each part, as many good ones as bad ones."""
    if not archive.exists():
        print(f"no {archive}: random words instead")
        random = np.random.default_rng(0)
        return {
            part: [(random.choice(["good", "bad", "film", "plot"], 100).tolist(), i % 2) for i in range(count)]
            for part, count in counts.items()
        }
    reviews: dict[str, list] = {part: [] for part in counts}
    missing = {(part, label): count // 2 for part, count in counts.items() for label in ("neg", "pos")}
    with tarfile.open(archive, "r|gz") as files:
        for file in files:
            _, part, label, *name = f"{file.name}///".split("/")[:4]
            if name != [""] and missing.get((part, label)):
                missing[part, label] -= 1
                text = files.extractfile(file).read().decode().lower().replace("<br />", " ")
                reviews[part].append((re.findall(r"[a-z']+", text), int(label == "pos")))
                if not any(missing.values()):
                    break
    return reviews


def encode(reviews, numbers: dict[str, int], tokens: int) -> list[dict]:
    """Reviews as examples for the Trainer: 0 is padding, 1 a word without a number."""
    examples = []
    for words, label in reviews:
        ids = [numbers.get(word, 1) for word in words[:tokens]]
        padding = tokens - len(ids)
        examples.append(
            {
                "input_ids": torch.tensor(ids + [0] * padding),
                "attention_mask": torch.tensor([1] * len(ids) + [0] * padding),
                "labels": label,
            }
        )
    return examples


def train(
    trial,  # raybench
    *,
    batch_size: int,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.01,
    epochs: int = 3,
    hidden: int = 32,
    layers: int = 1,
    words: int = 5000,
    tokens: int = 64,
    train_examples: int = 25_000,
    val_examples: int = 25_000,
):
    set_seed(trial.seed)  # raybench
    with trial.section("data"):  # raybench
        archive = trial.data_dir / "aclImdb_v1.tar.gz"  # raybench
        reviews = read_reviews(archive, {"train": train_examples, "test": val_examples})
        common = Counter(word for review, _ in reviews["train"] for word in review).most_common(words)
        numbers = {word: number for number, (word, _) in enumerate(common, start=2)}
        train_set, val_set = (encode(reviews[part], numbers, tokens) for part in ("train", "test"))
    config = BertConfig(
        vocab_size=words + 2,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * hidden,
        max_position_embeddings=tokens,
    )
    arguments = TrainingArguments(
        output_dir=trial.output_dir,  # raybench
        seed=trial.seed,  # raybench
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=500,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        num_train_epochs=epochs,
        warmup_steps=10,
        logging_strategy="epoch",
        eval_strategy="epoch",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        BertForSequenceClassification(config),
        arguments,
        train_dataset=train_set,
        eval_dataset=val_set,
        compute_metrics=lambda result: {"accuracy": np.mean(result.predictions.argmax(1) == result.label_ids)},
    )
    attach(trial, trainer)  # raybench
    trainer.train()


if __name__ == "__main__":
    train(raybench.current_trial(epochs=1), batch_size=20, train_examples=2000, val_examples=500)  # raybench

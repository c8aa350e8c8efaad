"""The choice within a deadline and what may be spent."""

from __future__ import annotations

from raybench.analysis.answer import Answer
from raybench.analysis.trade_off import run_costs
from raybench.core.repeats import percent
from raybench.core.text import join_words, plural
from raybench.reporting.words.numbers import duration_text, money_text, rounded_money, seconds_text
from raybench.reporting.words.rows import BestText, name_of, to_target


def within_texts(answer: Answer) -> list[BestText]:
    """The choice within a deadline and what may be spent, for each workload."""
    limits = [duration_text(answer.deadline_s)] if answer.deadline_s is not None else []
    limits += [money_text(answer.spend_at_most, answer.currency)] if answer.spend_at_most is not None else []
    limit, texts = join_words(limits), []
    for choice in answer.within:
        place = f" on {choice.workload}" if choice.workload else ""
        row = answer.configurations[choice.nearest if choice.configuration is None else choice.configuration]
        seconds, price = run_costs(row)
        goal = to_target(answer, f" for {'the training of ' if row.total_is_training else ''}a run")
        amounts = seconds_text(seconds or 0.0)
        amounts += f" and {rounded_money(price, answer.currency)}" if price is not None else ""
        name = name_of(answer, row.index, choice.workload)
        if choice.configuration is None:
            parts = [(seconds, answer.deadline_s), (price, answer.spend_at_most)]
            above = max(amount / most - 1 for amount, most in parts if amount is not None and most)
            text = f"{name} comes nearest, {percent(above)} above, with {amounts}{goal}."
            texts.append(BestText(f"None within {limit}{place}:", text))
            continue
        role = "cheapest" if answer.deadline_s is not None and price is not None else "fastest"
        role = f"the {role} of {choice.of} within" if choice.of > 1 else "the only one within"
        runs = f"{choice.runs_within} of {plural(choice.runs, 'run')} within"
        texts.append(BestText(f"{name}{place}, {role} {limit}:", f"{amounts}{goal}; {runs}."))
    return texts

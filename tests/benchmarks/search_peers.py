"""Runs one search by another engine, in a Python that has it: reads the task as JSON, prints the
answer as JSON."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def by_rlms(job: dict[str, Any]) -> str:
    engine: Any = importlib.import_module("rlm")
    access = {"model_name": job["model"], "base_url": job["url"], "api_key": "none"}
    search = engine.RLM(backend="openai", backend_kwargs=access, max_iterations=8)
    return str(search.completion(job["text"], root_prompt=job["question"]).response)


def by_dspy(job: dict[str, Any]) -> str:
    dspy: Any = importlib.import_module("dspy")
    model = dspy.LM(f"openai/{job['model']}", api_base=job["url"], api_key="none", cache=False)
    with dspy.context(lm=model):
        search = dspy.RLM(
            "context, query -> answer", interpreter_factory=dspy.LocalInterpreter, max_iters=8
        )
        return str(search(context=job["text"], query=job["question"]).answer)


if __name__ == "__main__":
    task = json.load(sys.stdin)
    answer = {"rlms": by_rlms, "dspy": by_dspy}[task["engine"]](task)
    print(json.dumps({"answer": answer}))

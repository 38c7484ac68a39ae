"""One model, many checkpoints, two buttons: what a comparison page needs, without a copy of the model for every tab.

    pip install . gradio torch && python examples/gradio_app.py [--port 7860] [CHECKPOINT.pt ...]

Without checkpoints it makes three of its own.  Runs on a GPU where there is one.
"""
from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Iterator

import gradio as gr
import torch

from plimsoll.integrations.gradio import Names, gpu_queue

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(DEVICE).eval()


def samples() -> list[Path]:
    folder = Path(tempfile.mkdtemp())
    for seed in range(3):
        torch.manual_seed(seed)
        torch.save(model().state_dict(), folder / f"seed-{seed}.pt")
    return sorted(folder.glob("*.pt"))


def page(paths: list[Path]) -> Any:
    one = model()
    queue = gpu_queue()

    def load(name: str) -> torch.nn.Module:
        state = torch.load(files[name], map_location=DEVICE, weights_only=True)
        one.load_state_dict(state)  # in place, and strict: a name that does not fit is an error
        return one

    files = {path.stem: path for path in paths}
    names = Names(load, list(files))

    def answer(name: str, x: float) -> str:
        with torch.no_grad():
            out = names.use(name)(torch.full((1, 8), float(x), device=DEVICE))
        return f"{name}: {out.item():+.6f}"

    @queue
    def predict(name: str, x: float) -> str:
        return answer(name, x)

    @queue
    def compare(x: float) -> Iterator[str]:
        told = ""
        for name in files:
            told += answer(name, x) + "\n"
            yield told

    with gr.Blocks(title="Plimsoll: one model, many checkpoints") as blocks:
        gr.Markdown("## One model, many checkpoints")
        name = gr.Dropdown(list(files), value=next(iter(files)), label="checkpoint")
        x = gr.Number(0.5, label="x")
        with gr.Row():
            one_button = gr.Button("Predict", elem_id="predict")
            all_button = gr.Button("Compare all", elem_id="compare")
        out = gr.Textbox(label="answer", lines=4, elem_id="answer")
        one_button.click(predict, [name, x], out, **queue.event)
        all_button.click(compare, [x], out, **queue.event)
    return blocks


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=7860)
    parser.add_argument("checkpoints", nargs="*", type=Path)
    arguments = parser.parse_args()
    page(arguments.checkpoints or samples()).queue().launch(server_port=arguments.port, quiet=True)


if __name__ == "__main__":
    main()

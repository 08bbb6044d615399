"""Time until `inspect` has its first page and its last, in CPU seconds and on the clock, and what it forecast.

Every network runs in a process of its own. Weights are random unless a package brings them: times do not depend on them
beyond the search for dead filters, which ends when every filter has responded. Labels are what the network says, so
that it is not at chance, where an inspection ends early. Of networks that are not in the registry the layers are built
again in `large_networks.py`; names such as `timm:vit_tiny_patch16_224` need that package.

    python benchmarks/inspect_pages.py [resnet18 resnet50 efficientnet_b0 timm:vit_tiny_patch16_224 ...]
"""

import argparse
import json
import subprocess
import sys
import time

from large_networks import LARGE

USUAL = ("resnet18", "resnet50", *LARGE)


def times(name: str) -> dict[str, float]:
    """Seconds of the processor and of the clock until the first page and until the last, written for real."""
    from tempfile import mkdtemp

    import torch

    from firstlight import build, load
    from firstlight._internal.progress import Plan
    from firstlight.data import ImageData
    from firstlight.models.other_packages import build_of_other_package
    from firstlight.pages.page import write_page
    from firstlight.questions.inspect.measure import inspect
    from firstlight.questions.inspect.page import inspection_page

    torch.manual_seed(0)
    if ":" in name:
        model = build_of_other_package(name, classes=None, pretrained=False, options={})
        images = load("photos224")
    elif name in LARGE:
        model, images = LARGE[name](), load("photos224")
    elif name == "resnet50":
        model = build(name, classes=1000, shape=(3, 224, 224), form="imagenet")
        images = load("photos224")
    else:
        model, images = build(name, classes=10), load("cifar10", split="test", n=1000)
    model.eval()
    with torch.no_grad():
        last = [module for module in model.modules() if isinstance(module, torch.nn.Linear)][-1]
        if last.bias is not None:  # random networks name one class for all images, which is chance
            last.bias -= model(images.x[:32]).mean(0)
        said = torch.cat([model(part).argmax(1) for part in torch.split(images.x[:1000], 8)])
        n_outputs = model(images.x[:1]).shape[1]
    labelled = ImageData(images.x[:1000], said, tuple(map(str, range(n_outputs))))
    forecasts: list[float] = []
    expect = Plan.expect

    def noted(plan: Plan, steps: dict[str, float]) -> None:
        expect(plan, steps)
        forecasts.append(plan.left)

    began: dict[str, float] = {}
    begin = Plan.begin

    def dated(plan: Plan, step: str) -> None:
        began[step] = time.process_time()
        begin(plan, step)

    Plan.expect, Plan.begin = noted, dated  # type: ignore[method-assign,assignment]
    begun, cpu = time.perf_counter(), time.process_time()
    page = f"{mkdtemp()}/page.html"
    first: dict[str, float] = {}

    def first_page(inspection: object) -> None:
        write_page(inspection_page(inspection), page)  # type: ignore[arg-type]
        first.update(first_cpu=time.process_time() - cpu, first_clock=time.perf_counter() - begun)

    write_page(inspection_page(inspect(model, labelled, listen=first_page, show=False)), page)
    last = {"last_cpu": time.process_time() - cpu, "last_clock": time.perf_counter() - begun}
    ends = [*list(began.values())[1:], time.process_time()]
    steps = {f"step {step}": end - start for (step, start), end in zip(began.items(), ends, strict=True)}
    return {**first, **last, **steps, "forecast": forecasts[0], "images": float(len(labelled))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=USUAL)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(times(given.names[0])))
        return
    print(f"{'network':34}{'first page':>22}{'whole':>22}{'forecast':>12}")
    for name in given.names:
        done = subprocess.run(
            [sys.executable, __file__, "--one", name], capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"{name:34}{done.stderr.strip().splitlines()[-1]}")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        first, last = (
            f"{found[f'{what}_cpu']:.0f} CPU s, {found[f'{what}_clock']:.0f} s" for what in ("first", "last")
        )
        print(f"{name:34}{first:>22}{last:>22}{found['forecast']:>10.0f} s", flush=True)
        steps = {key.removeprefix("step "): value for key, value in found.items() if key.startswith("step ")}
        print("    CPU s: " + ", ".join(f"{step} {value:.0f}" for step, value in steps.items()), flush=True)


if __name__ == "__main__":
    main()

"""Speed of the identity task beside plain PyTorch with its default settings.

Both sides train the same networks on the same image for the same number of steps. The plain side is
what one writes first: default threads, default layout, one network after another.

    python benchmarks/identity.py [--steps 40] [--networks 4]
"""

import argparse
import copy
import dataclasses
import time
from functools import partial

import torch
from torch.profiler import ProfilerActivity, profile

from firstlight._internal.executor import map_tasks, single_thread
from firstlight.models.image_to_image import with_large_filters_by_fourier
from firstlight.questions.copy_or_memorise.task import IdentityTask, _trained, write_limit
from firstlight.training import Recipe, train


def clock(work):
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def eager_step(model, x, optimiser):
    optimiser.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), x)
    loss.backward()
    optimiser.step()
    return loss.item()


def eager(task, steps):
    model, x = task.build(), task.images.training
    optimiser = torch.optim.Adam(model.parameters(), lr=task.lr)
    for _ in range(steps):
        eager_step(model, x, optimiser)


def ours(task):
    return _trained(task, task.build(), task.images.training)


def table(name, tasks, steps):
    tasks = [dataclasses.replace(t, steps=steps, stop_below=None) for t in tasks]
    eager(tasks[0], 3)
    map_tasks(ours, [dataclasses.replace(t, steps=2) for t in tasks[:2]], label="warm", show=False)
    plain_wall, _ = clock(lambda: [eager(t, steps) for t in tasks])
    side_wall, _ = clock(lambda: map_tasks(ours, tasks, label="ours", show=False))
    with single_thread():
        _, one_cpu = clock(lambda: ours(tasks[0]))
        _, eager_cpu = clock(lambda: eager(tasks[0], steps))
    total = steps * len(tasks)
    print(
        f"{name:<34}{1e3 * plain_wall / total:>9.2f}{1e3 * side_wall / total:>9.2f}{plain_wall / side_wall:>7.2f}x"
        f"{1e3 * eager_cpu / steps:>12.2f}{1e3 * one_cpu / steps:>9.2f}{eager_cpu / one_cpu:>7.2f}x"
    )


def where_time_goes(task, steps):
    model, x = task.build(), task.images.training
    optimiser = torch.optim.Adam(model.parameters(), lr=task.lr)
    with single_thread():
        eager_step(model, x, optimiser)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            start = time.process_time()
            for _ in range(steps):
                eager_step(model, x, optimiser)
            spent = time.process_time() - start
    rows = {row.key: row.self_cpu_time_total / 1e6 for row in seen.key_averages()}
    inside = sum(rows.values())
    convolution = sum(v for k, v in rows.items() if "convolution" in k or "mkldnn" in k)
    optimising = sum(v for k, v in rows.items() if "foreach" in k.lower() or "optimizer" in k.lower())
    c, side = task.width or 32, task.image_size
    flops = 3 * 2 * side**2 * task.kernel**2 * (2 * c + (task.depth - 2) * c**2) * steps
    print(f"\nProfile of the plain loop, {task.depth} layers, {c} channels, {side} x {side}, one thread:")
    print(f"convolutions {convolution / inside:.0%} of the time, optimiser {optimising / inside:.0%}")
    print(
        f"convolutions run at {flops / convolution / 1e9:.0f} billion operations a second ({spent:.2f} s in all)"
    )
    a = torch.randn(1024, 1024)
    with single_thread():
        a @ a
        start = time.process_time()
        for _ in range(5):
            a @ a
        speed = 5 * 2 * 1024**3 / (time.process_time() - start) / 1e9
    print(f"a large matrix product runs at {speed:.0f}: that is what this core can do")


def by_unfold(x, weight):
    k, (n, _, h, w) = weight.shape[-1], x.shape
    columns = torch.nn.functional.unfold(x, k, padding=k // 2)
    return (weight.flatten(1) @ columns).reshape(n, -1, h, w)


def ways_to_convolve(repeats=20):
    print("\nOne layer forward and backward, 14 x 14, 8 channels in and out, one thread, milliseconds:")
    print(f"{'filter':>8}{'direct':>10}{'unfold':>10}{'Fourier':>10}")
    for k in (5, 13, 29):
        x = torch.randn(1, 8, 14, 14, requires_grad=True)
        direct = torch.nn.Sequential(torch.nn.Conv2d(8, 8, k, padding=k // 2, bias=False))
        fourier = with_large_filters_by_fourier(copy.deepcopy(direct), at_least=1)
        weight = direct[0].weight
        spent = []
        with single_thread():
            for way in (direct, partial(by_unfold, weight=weight), fourier):
                assert torch.allclose(way(x), direct(x), atol=1e-3)
                work = partial(repeated, way, x, repeats)
                spent.append(clock(work)[1])
        print(f"{k:>8}" + "".join(f"{1e3 * s / repeats:>10.2f}" for s in spent))


def repeated(way, x, repeats):
    for _ in range(repeats):
        way(x).square().sum().backward()


def closed_form(steps):
    task = IdentityTask(depth=1, optimiser="sgd", image_size=28)
    x = task.images.training
    model = task.build()
    with single_thread():
        _, jump = clock(lambda: write_limit(task.build(), x))
        recipe = Recipe(lr=0.01, momentum=0.9, loss="mse", batch_size=None, steps=steps)
        _, walk = clock(lambda: train(model, x, x, recipe, show=False))
    left = float((model(x) - x).detach().square().mean())
    print(
        f"\nOne 5x5 convolution on a 28 x 28 digit: closed form {jump:.4f} s; {steps} steps {walk:.2f} s "
        f"({walk / jump:.0f}x) and the error is still {left:.1e}; the published two million would take "
        f"{walk / steps * 2e6 / jump:,.0f}x"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--networks", type=int, default=4)
    given = parser.parse_args()
    print("Milliseconds per step and network. Wall: networks one by one with default threads against side by")
    print("side; CPU: one network on one thread.")
    print(f"{'':<34}{'eager':>9}{'ours':>9}{'wall':>8}{'eager CPU':>12}{'ours':>9}{'CPU':>8}")
    cases = {
        "14 x 14, 32 channels, 10 layers": IdentityTask(depth=10),
        "14 x 14, 32 channels, 20 layers": IdentityTask(depth=20),
        "28 x 28, 16 channels, 5 layers": IdentityTask(depth=5, width=16, image_size=28),
        "28 x 28, fully connected, 4 layers": IdentityTask(family="fcn", depth=4, image_size=28),
    }
    for name, task in cases.items():
        tasks = [dataclasses.replace(task, seed=s) for s in range(given.networks)]
        table(name, tasks, given.steps)
    where_time_goes(IdentityTask(depth=10), given.steps)
    ways_to_convolve()
    closed_form(2000)


if __name__ == "__main__":
    main()

"""
Which of my images are easy, and which labels look wrong?
=========================================================

Add the accessibility recorder to a plain PyTorch loop: three lines, marked below.
"""

# %%
# Any images, any model, any loop. Here: crops of photographs that come with the installation.

import torch
from torch import nn

from firstlight import data, learning_order
from firstlight.measures.learning_order.accessibility import AccessibilityRecorder
from firstlight.measures.learning_order.discriminability import penultimate_features
from firstlight.questions.order.measure import label_suspicion

photos = data.load("photos", split="train", n=600, seed=0)
x = nn.functional.avg_pool2d(photos.x, 2)
y = photos.y

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 8)
)
optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

# %%
# The loop, with the recorder.

recorder = AccessibilityRecorder(x, y)  # line 1: the examples to follow

for _epoch in range(8):
    for batch in torch.randperm(len(x)).split(32):
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    recorder.record(model)  # line 2: once per epoch

history = recorder.history()  # line 3: one bit per image and epoch

# %%
# What came out: a score per image, and what predicts it without any training.

report = learning_order(history, photos, n_shown=8)
print(f"training accuracy by epoch: {[round(a, 2) for a in history.accuracy[0].tolist()]}")
print(f"learned first: images {report.earliest.index.tolist()}")
print(f"learned last:  images {report.latest.index.tolist()}")
for name, correlation in report.correlations.items():
    print(f"{name}: {correlation.pointwise.value:.2f} (chance {correlation.chance.spread:.2f})")

# %%
# Labels that look wrong: learned late, and among images of another class in the network's own features. The labels of
# these photographs are right, so these are crops that look like another photograph.

features = penultimate_features(model, x)
suspicion = label_suspicion([history.scores], photos, features=features)
print(f"look at the labels of: {suspicion.argsort(descending=True)[:8].tolist()}")

# %%
# The images themselves, those learned last.

report.figure("latest")

# %%
# With outputs of the training steps instead of a forward pass, the recorder costs next to nothing:
# ``recorder.batch(outputs, batch)`` after each step and ``recorder.end_epoch()`` after each epoch.
# In Lightning: ``Trainer(callbacks=[AccessibilityCallback(recorder)])``.

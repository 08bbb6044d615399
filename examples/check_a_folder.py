"""
Which labels of a folder look wrong?
====================================

From a folder of class folders to a ranked list and a table. Here six crops of photographs are put into
the wrong folder on purpose.
"""

# %%
# A folder with six wrong labels
# ------------------------------
# Put your own folder in its place.

import tempfile
from pathlib import Path

from PIL import Image

import firstlight
from firstlight.pages.figures import picture_grid
from firstlight.questions.labels.page import labels_sentences

folder = Path(tempfile.mkdtemp())
photos = firstlight.load("photos", split="train", n=240, seed=0)
wrong = set(range(0, 240, 40))
for i, (pixels, label) in enumerate(zip(photos.x, photos.y.tolist(), strict=True)):
    name = photos.classes[(label + 1) % photos.n_classes if i in wrong else label]
    (folder / name).mkdir(exist_ok=True)
    picture = (255 * pixels).round().byte().permute(1, 2, 0).numpy()
    Image.fromarray(picture).save(folder / name / f"{i:03}.png")

# %%
# The check
# ---------
# Four networks, each trained on one half of the images. The first sentences say what the list is worth: some labels
# are changed on purpose, and the share that is found again is known.

check = firstlight.check_labels(folder, epochs=8, top=12)
for sentence in labels_sentences(check):
    print(sentence)

# %%
# The suspects
# ------------

for index in check.suspects.index.tolist():
    file = Path(check.files[index])
    told = "wrong" if int(file.stem) in wrong else "right"
    print(f"{told}  {file.parent.name}/{file.name}: {check.reason(index)}")
check.write_csv(folder / "labels.csv")

# %%
# The same as pictures, most suspicious first.

picture_grid(
    check.suspects.images, signed=False, columns=6, title="Suspects", alt="Twelve crops of photographs"
)

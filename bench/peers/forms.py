# SPDX-License-Identifier: MIT
"""Write photographs in other forms, with Pillow.

    forms.py FORM FROM TO    write each photograph below FROM in this form below the new folder TO
"""

import os
import sys

FORMS = {  # extension, Pillow's options, longest side in pixels (none: unchanged)
    "progressive": ("jpg", {"quality": 85, "progressive": True}, None),
    "large": ("jpg", {"quality": 85}, 4000),
    "large-progressive": ("jpg", {"quality": 85, "progressive": True}, 4000),
    "png": ("png", {}, None),
    "png-32": ("png", {}, 32),
    "webp": ("webp", {"quality": 85}, None),
    "webp-lossless": ("webp", {"lossless": True}, None),
    "avif": ("avif", {"quality": 75, "speed": 8}, None),
}


def main(form, source, to):
    from PIL import Image

    extension, options, longest = FORMS[form]
    for name in sorted(os.listdir(source)):
        folder = os.path.join(source, name)
        if not os.path.isdir(folder):
            continue
        os.makedirs(os.path.join(to, name))
        for file in sorted(os.listdir(folder)):
            image = Image.open(os.path.join(folder, file)).convert("RGB")
            if longest:
                scale = longest / max(image.size)
                image = image.resize([max(1, round(side * scale)) for side in image.size], Image.Resampling.LANCZOS)
            image.save(os.path.join(to, name, os.path.splitext(file)[0] + "." + extension), **options)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""An agent playing, as a GIF (or an MP4 where ffmpeg is installed)."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
from PIL import Image

from emphatic.errors import UserError

_BACKGROUND = (22, 24, 29)
# Okabe and Ito's colours, told apart by colour-blind readers; then lighter ones of the same.
_PALETTE = (
    (230, 159, 0),
    (86, 180, 233),
    (0, 158, 115),
    (240, 228, 66),
    (213, 94, 0),
    (204, 121, 167),
    (0, 114, 178),
    (255, 255, 255),
    (190, 190, 190),
    (120, 220, 190),
)


def images(observations: np.ndarray, size: int = 320) -> list[Image.Image]:
    """A picture of each observation: images as they are, planes of a grid each in a colour."""
    pixels = np.stack([_picture(observation) for observation in observations])
    height, width = pixels.shape[1:3]
    scale = max(1, round(size / max(height, width)))
    return [
        Image.fromarray(frame).resize((width * scale, height * scale), Image.Resampling.NEAREST)
        for frame in pixels
    ]


def _picture(observation: np.ndarray) -> np.ndarray:
    """RGB of one observation."""
    if observation.ndim != 3:
        raise UserError("run", "its observations are no images, so there is nothing to show")
    if observation.dtype == np.uint8:
        channels = observation.shape[-1]
        return observation[..., -3:] if channels % 3 == 0 else observation[..., [-1] * 3]
    picture = np.empty((*observation.shape[:2], 3), np.uint8)
    picture[:] = _BACKGROUND
    for plane in range(observation.shape[-1]):
        picture[observation[..., plane] > 0] = _PALETTE[plane % len(_PALETTE)]
    return picture


def write(path: Path, observations: np.ndarray, *, frames_per_second: int = 15) -> None:
    """The animation, its format by the ending of `path`."""
    path = Path(path)
    if path.suffix not in (".gif", ".mp4"):
        raise UserError("out", f"must end in .gif or .mp4, not {path.name!r}")
    pictures = images(observations)
    if path.suffix == ".gif":
        first, *rest = [picture.quantize(colors=64) for picture in pictures]
        first.save(
            path,
            save_all=True,
            append_images=rest,
            duration=round(1000 / frames_per_second),
            loop=0,
        )
        return
    _write_mp4(path, pictures, frames_per_second)


def _write_mp4(path: Path, pictures: list[Image.Image], frames_per_second: int) -> None:
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        raise UserError("out", "an .mp4 needs ffmpeg, which is not installed; .gif needs nothing")
    width, height = pictures[0].size
    command = [ffmpeg, "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{width}x{height}", "-r", str(frames_per_second), "-i", "-"]
    command += ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", str(path)]
    frames = b"".join(picture.tobytes() for picture in pictures)
    done = subprocess.run(command, input=frames, capture_output=True, check=False)
    if done.returncode:
        raise UserError("out", f"ffmpeg could not write {path}: {done.stderr.decode().strip()}")

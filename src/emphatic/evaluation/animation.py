"""An agent playing, as a GIF, or as an MP4 where the program ffmpeg is installed."""

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


def check(path: Path, frames_per_second: int) -> None:
    """Whether an animation can be written there, before there is one."""
    if not 1 <= frames_per_second <= 100:
        raise UserError("fps", f"must lie in [1, 100], not {frames_per_second}")
    if path.suffix not in (".gif", ".mp4"):
        raise UserError("out", f"must end in .gif or .mp4, not {path.name!r}")
    if not path.parent.is_dir():
        raise UserError("out", f"{path.parent} is no folder; make it, or choose another place")
    if path.is_dir():
        raise UserError("out", f"{path} is a folder; choose another name")
    if path.suffix == ".mp4":
        _ffmpeg()


def write(path: Path, observations: np.ndarray, *, frames_per_second: int = 15) -> None:
    """The animation, its format by the ending of `path`."""
    path = Path(path)
    check(path, frames_per_second)
    pictures = images(observations)
    try:
        if path.suffix == ".mp4":
            _write_mp4(path, pictures, frames_per_second)
        else:
            _write_gif(path, pictures, frames_per_second)
    except OSError as error:
        raise UserError("out", f"cannot write {path}: {error.strerror or error}") from error


def _write_gif(path: Path, pictures: list[Image.Image], frames_per_second: int) -> None:
    first, *rest = [picture.quantize(colors=64) for picture in pictures]
    duration = round(1000 / frames_per_second)
    first.save(path, save_all=True, append_images=rest, duration=duration, loop=0)


def _write_mp4(path: Path, pictures: list[Image.Image], frames_per_second: int) -> None:
    """Raw frames piped into ffmpeg; its encoder of choice wants even sizes."""
    width, height = pictures[0].size
    command = [_ffmpeg(), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{width}x{height}", "-r", str(frames_per_second), "-i", "-"]
    command += ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", f"file:{path}"]
    frames = b"".join(picture.tobytes() for picture in pictures)
    done = subprocess.run(command, input=frames, capture_output=True, check=False)
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise UserError("out", f"ffmpeg could not write {path}: {said}")


def _ffmpeg() -> str:
    """Where the program is."""
    found = shutil.which("ffmpeg")
    if found is None:
        raise UserError("out", "an .mp4 needs ffmpeg, which is not installed; .gif needs nothing")
    return found

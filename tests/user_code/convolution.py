"""Image filters written with loops: convolution, non-maximum suppression, bilinear warp."""
import numpy as np


def convolve(image, kernel):
    h, w = image.shape
    kh, kw = kernel.shape
    padded = np.pad(image, ((kh // 2, kh // 2), (kw // 2, kw // 2)), mode="edge")
    flipped = kernel[::-1, ::-1]
    out = np.zeros((h, w))
    for y in range(h):
        for x in range(w):
            out[y, x] = np.sum(padded[y:y + kh, x:x + kw] * flipped)
    return out


def edges(image, kernel):
    gx = convolve(image, kernel)
    gy = convolve(image, kernel.T)
    mag = np.hypot(gx, gy)
    out = np.zeros_like(mag)
    for y in range(1, mag.shape[0] - 1):
        for x in range(1, mag.shape[1] - 1):
            window = mag[y - 1:y + 2, x - 1:x + 2]
            if mag[y, x] >= window.max():
                out[y, x] = mag[y, x]
            elif mag[y, x] > 0.5 * window.mean():
                out[y, x] = 0.5 * mag[y, x]
    return out


def bilinear(image, xs, ys):
    h, w = image.shape
    out = np.zeros(len(xs))
    for k in range(len(xs)):
        x0 = int(np.floor(xs[k]))
        y0 = int(np.floor(ys[k]))
        x0 = min(max(x0, 0), w - 2)
        y0 = min(max(y0, 0), h - 2)
        fx, fy = xs[k] - x0, ys[k] - y0
        out[k] = ((1 - fx) * (1 - fy) * image[y0, x0] + fx * (1 - fy) * image[y0, x0 + 1]
                  + (1 - fx) * fy * image[y0 + 1, x0] + fx * fy * image[y0 + 1, x0 + 1])
    return out


def registration(shift, image, template):
    h, w = image.shape
    ys, xs = np.mgrid[1:h - 2, 1:w - 2]
    moved = bilinear(image, xs.ravel() + shift[0], ys.ravel() + shift[1])
    return np.sum((moved - template[1:h - 2, 1:w - 2].ravel())**2)

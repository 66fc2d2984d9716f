"""Every NumPy function fdiff answers for, against NumPy for values and JAX for derivatives.

A case is an expression. It is run by NumPy, traced by fdiff, and run by JAX with ``jax.numpy`` for
``np``; the arrays it names are those of `arrays`. Values, dtypes and shapes are NumPy's, and so is
what comes out as a scalar.
"""

import operator
import re
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tapes import check_derivatives, floating, like, values

import fdiff.ops  # noqa: F401 - fills the registry
from fdiff.arraytype import type_of
from fdiff.errors import LeakError, TraceError, UnsupportedError
from fdiff.primitive import FUNCTIONS, UFUNC_METHODS, UFUNCS
from fdiff.tape import verify
from fdiff.trace import ArgumentSpec, TracedArray, record
from fdiff.transforms.reverse import vjp

jax.config.update("jax_enable_x64", True)


def arrays():
    """What the expressions are made of, away from every kink of every function."""
    rng = np.random.default_rng(7)
    real = rng.choice([-1, 1], (3, 4)) * (
        0.2 + 0.17 * rng.permutation(12).reshape(3, 4) + rng.uniform(0, 0.05, (3, 4))
    )
    a = rng.normal(size=(2, 3, 3)) + 2.0 * np.eye(3)
    holed = np.random.default_rng(8).permutation(real.ravel()).reshape(3, 4) + 0.029
    holed[[0, 2], [1, 3]] = np.nan
    return {
        "x": real,
        "y": rng.permutation(real.ravel()).reshape(3, 4)[::-1] + 0.061,
        "p": np.abs(real) + 0.1,  # positive
        "u": real / 2.4,  # inside (-1, 1)
        "q": np.abs(real) + 1.05,  # above one
        "g": holed,  # with NaN
        "v": real[0] + 0.3,
        "w": real[:, 1] - 0.2,
        "v3": real[1, :3],
        "s": np.float64(0.7),
        "f": 0.7,  # a Python float
        "z": np.array(1.3),
        "t": rng.normal(size=(2, 3, 4)),
        "e": np.zeros((0, 3)),
        "a": a[0],
        "A": a,
        "c": a[0] @ a[0].T + np.eye(3),
        "C": a @ np.swapaxes(a, 1, 2) + np.eye(3),
        "m": rng.uniform(size=(3, 4)) > 0.4,  # constants from here on
        "m0": np.array([True, False, True]),
        "i": rng.integers(-9, 9, (3, 4)),
        "n": rng.integers(0, 4, (3, 4)),
        "k": np.array([0, -1, 2, 2, 0]),
        "one": np.ones((3, 4)),
        "cx": real + 1j * np.roll(real, 5, axis=1)[::-1],  # off the axes, and complex from here on
        "cv": real[0] + 0.31 - 1j * real[2],
        "ca": a[0] + 1j * a[1].T,
        "cs": np.complex128(0.6 - 0.7j),
    }


CONSTANT = {"m", "m0", "i", "n", "k", "one"}
ARRAYS = arrays()

ELEMENTWISE = """
3 % x; divmod(3, x); x + y; x - y; x * y; x / y; 1 + x; 1 - x
np.ones(2, np.result_type(x, 2)) * s; np.ones(2, x.dtype) * s; -x; +x; abs(x); x ** 2; x ** 3
p ** y; x ** -2; x ** 1; x ** 0; 2.0 ** x; p ** 0.5; x // y; x % y; divmod(x, y); x * 2; 2 * x
x - 1; 1 / x; 3 // x; x % 2; x + s; s * x; s * s; f * x; f * f; f + 1; s + z; z * z; z + 1; x * v
x + w[:, None]; np.add(x, 2); np.multiply(x, v); np.divide(x, 3); np.true_divide(x, y)
np.subtract(s, z); np.negative(x); np.positive(x); np.floor_divide(x, y); np.remainder(x, y)
np.mod(x, y); np.fmod(x, y); np.divmod(x, y); np.modf(x); np.frexp(x); np.ldexp(x, n)
np.power(p, y); np.power(p, 2.5); np.power(x, 2); np.float_power(p, y); np.square(x); np.sqrt(p)
np.cbrt(x); np.reciprocal(x); np.exp(x); np.exp2(x); np.expm1(x); np.log(p); np.log2(p)
np.log10(p); np.log1p(p); np.logaddexp(x, y); np.logaddexp2(x, y); np.logaddexp(x, x); np.sin(x)
np.cos(x); np.tan(u); np.arcsin(u); np.arccos(u); np.arctan(x); np.arctan2(x, y); np.hypot(x, y)
np.sinh(x); np.cosh(x); np.tanh(x); np.arcsinh(x); np.arccosh(q); np.arctanh(u); np.deg2rad(x)
np.rad2deg(x); np.radians(x); np.degrees(x); np.conjugate(x); np.conj(x); np.absolute(x)
np.fabs(x); np.sign(x); np.copysign(x, y); np.heaviside(x, y); np.nextafter(x, y); np.spacing(x)
np.maximum(x, y); np.minimum(x, y); np.fmax(x, y); np.fmin(x, y); np.fmax(x, g); np.fmin(g, x)
np.maximum(x, 0); np.minimum(0.5, x); np.floor(x); np.ceil(x); np.trunc(x); np.rint(x); np.fix(x)
np.round(x); np.round(x, 1); np.around(x, -1); x.round(1); np.sin(s); np.sin(z); np.sin(f)
np.exp(f) * x; np.add(x, y, dtype=float); np.multiply(x, y, dtype=np.float32); np.sinc(x)
np.sinc(x / 20); np.nan_to_num(g); np.nan_to_num(g, nan=2.0); np.clip(x, -0.5, 0.6)
np.clip(x, None, 0.6); np.clip(x, 0.1, None); np.clip(x, v, 3); np.clip(x, y, y + 1)
x.clip(-1, 1); x.clip(min=0.3); np.clip(x, min=0.1, max=0.9); np.clip(s, 0, 1); np.clip(z, 0, 1)
np.where(m, x, y); np.where(x > y, x, y); np.where(m, x, 0); np.where(x > 0, 1.0, y)
np.where(m, s, 2); np.select([x > 1, x > 0], [x, y], 0.0); np.select([m], [x * y]); np.real(x)
np.imag(x); x.real; x.imag; x.conj(); x.conjugate(); np.real_if_close(x)
"""
LOGICAL = """
True & (x > 0); False | (x > 0); True ^ (x > 0); 5 << np.rint(p).astype(int)
99 >> np.rint(p).astype(int); np.rint(p).astype(int) << 2; np.rint(x).astype(int) >> 1
np.isnan(np.nanstd(g, axis=1, ddof=3)); x == y; x != y; x < y; x <= y; x > y; x >= y; x == x
np.equal(x, y); np.not_equal(x, y); np.less(x, y); np.less_equal(x, y); np.greater(x, y)
np.greater_equal(x, 0); np.logical_and(x > 0, y > 0); np.logical_or(x, y)
np.logical_xor(x > 0, y > 0); np.logical_not(x); np.isnan(g); np.isinf(x); np.isfinite(g)
np.signbit(x); (x > 0) & (y > 0); (x > 0) | (y > 0); (x > 0) ^ (y > 0); ~(x > 0); np.isclose(x, y)
np.isclose(g, g, equal_nan=True); np.allclose(x, x); np.allclose(x, y); np.array_equal(x, x)
np.array_equal(x, v); np.array_equiv(x, x); np.isposinf(x); np.isneginf(x); np.any(x > 0)
np.all(x > 0, axis=0); (x > 0).any(axis=1); (x > 0).all(); np.any(x, axis=(0, 1), keepdims=True)
np.all(x, where=m); np.any(x, where=m, axis=1); np.argmax(x); np.argmin(x); np.argmax(x, axis=1)
np.argmin(x, axis=0, keepdims=True); x.argmax(); x.argmin(axis=-1); np.count_nonzero(x)
np.count_nonzero(x, axis=0); np.iscomplexobj(x); np.isrealobj(x); np.shape(x); np.ndim(x)
np.size(x); np.size(x, 1); len(x); np.invert(x > 0); np.bitwise_and(x > 0, m)
np.bitwise_or(x > 0, m); np.bitwise_xor(x > 0, m); np.bitwise_and(np.floor(x).astype(int), i)
np.left_shift(np.floor(x).astype(int), n); np.right_shift(np.floor(x).astype(int), n)
np.gcd(np.floor(x).astype(int), i); np.lcm(np.floor(x).astype(int), i); np.iscomplex(x)
np.isreal(x); x.shape; x.ndim; x.size; x.nbytes; x.itemsize
"""
REDUCTIONS = """
np.nanvar(g, axis=1, ddof=2); np.sum(x); np.sum(x, 0); np.sum(x, axis=-1, keepdims=True)
np.sum(t, axis=(0, 2)); np.sum(x, axis=()); np.sum(x, where=m)
np.sum(x, axis=1, where=m, initial=2); np.sum(x, initial=3.0); np.sum(x, dtype=float); np.sum(e)
np.sum(e, axis=0); np.sum(s); np.sum(z); np.sum([s, z]); x.sum(); x.sum(axis=0)
x.sum(1, keepdims=True); np.prod(x); np.prod(x, axis=1); np.prod(t, axis=(0, 2), keepdims=True)
np.prod(x, where=m, initial=2.0); x.prod(axis=0); np.prod(e, axis=0); np.mean(x)
np.mean(x, axis=0); np.mean(t, axis=(0, 1), keepdims=True); np.mean(x, where=m)
np.mean(x, axis=1, where=m); x.mean(); x.mean(axis=-1); np.mean(x, dtype=float); np.var(x)
np.var(x, axis=0, ddof=1); np.var(x, axis=1, keepdims=True); x.var(ddof=1); np.var(x, where=m)
np.var(x, axis=0, correction=1); np.std(x); np.std(x, axis=0)
np.std(x, axis=1, ddof=1, keepdims=True); x.std(); np.std(t, axis=(0, 2)); np.std(x, where=m)
np.max(x); np.max(x, axis=0); np.max(t, axis=(1, 2), keepdims=True); np.max(x, initial=0.5)
np.max(x, where=m, initial=-3.0); np.amax(x); x.max(axis=1); x.max(); np.min(x); np.min(x, axis=1)
np.amin(t, axis=(0, 1)); np.min(x, initial=0.0); x.min(axis=0); x.min(); np.max(e, axis=1)
np.max(e, axis=0, initial=1.0); np.ptp(x); np.ptp(x, axis=0); np.ptp(x, 1, keepdims=True)
np.average(x); np.average(x, axis=0, weights=w * w + 1); np.average(x, weights=p)
np.average(x, axis=1, weights=v); np.average(x, axis=0, weights=p, returned=True)
np.average(x, axis=1, returned=True); np.average(x, axis=1, keepdims=True); np.cumsum(x)
np.cumsum(x, axis=1); x.cumsum(0); np.cumprod(x); np.cumprod(x, axis=0); x.cumprod(axis=1)
np.cumulative_sum(x, axis=1); np.cumulative_prod(x, axis=0)
np.cumulative_sum(x, axis=1, include_initial=True); np.nancumsum(g, axis=1); np.nancumprod(g)
np.nansum(g); np.nansum(g, axis=0); np.nanprod(g, axis=1); np.nanmean(g)
np.nanmean(g, axis=1, keepdims=True); np.nanvar(g, axis=0); np.nanvar(g, ddof=1); np.nanstd(g)
np.nanstd(g, axis=1); np.nanmax(g); np.nanmin(g, axis=0); np.nanmax(g, axis=1, keepdims=True)
np.add.reduce(x); np.add.reduce(x, axis=1); np.add.reduce(t, axis=(0, 1)); np.multiply.reduce(x)
np.maximum.reduce(x, axis=1); np.minimum.reduce(x); np.fmax.reduce(x); np.fmin.reduce(x, axis=1)
np.logical_and.reduce(x > 0); np.logical_or.reduce(x > 0, axis=1); np.logical_xor.reduce(x > 0)
np.logaddexp.reduce(x, axis=1); np.logaddexp.reduce(x); np.logaddexp2.reduce(x)
np.add.accumulate(x); np.multiply.accumulate(x, axis=1); np.maximum.accumulate(x, axis=1)
np.minimum.accumulate(x); np.add.outer(v, w); np.subtract.outer(v, w); np.multiply.outer(v, x)
np.divide.outer(v, w); np.power.outer(p, v); np.maximum.outer(v, w); np.minimum.outer(v, w)
np.hypot.outer(v, w); np.arctan2.outer(v, w); np.equal.outer(v, w); np.less.outer(v, w)
np.logaddexp.outer(v, w)
"""
SHAPES = """
np.reshape(x, (4, 3)); np.reshape(x, -1); x.reshape(2, 6); x.reshape((2, -1)); x.reshape(-1)
np.reshape(x, (2, 6), order="F"); x.reshape((6, 2), order="F"); np.ravel(x); x.ravel()
x.ravel("F"); x.flatten(); x.flatten("F"); np.ravel(s); x.T; t.T; t.mT; np.transpose(x)
np.transpose(t, (2, 0, 1)); t.transpose(1, 0, 2); t.transpose((1, 2, 0)); x.transpose()
np.permute_dims(t, (0, 2, 1)); np.swapaxes(t, 0, 2); t.swapaxes(-1, 0); np.moveaxis(t, 0, -1)
np.moveaxis(t, (0, 1), (2, 0)); np.rollaxis(t, 2); np.matrix_transpose(t); np.squeeze(x[None])
x[:, None].squeeze(1); np.expand_dims(x, 1); np.expand_dims(x, (0, -1))
np.broadcast_to(v, (3, 4)); np.broadcast_to(s, (2,)); np.broadcast_arrays(x, v); np.atleast_1d(s)
np.atleast_1d(x, z); np.atleast_2d(v); np.atleast_2d(v, s); np.atleast_3d(x); np.atleast_3d(v)
np.atleast_3d(x, s); np.concatenate([x, y]); np.concatenate((x, y, w[:, None]), axis=1)
np.concatenate([x, v], axis=None); np.concatenate([x, one]); np.stack([x, y])
np.stack([v, v * 2], axis=1); np.stack([s, z, s]); np.vstack([x, v]); np.vstack([v, v])
np.hstack([x, y]); np.hstack([v, w]); np.dstack([x, y]); np.column_stack([w, x])
np.append(x, y, axis=0); np.append(x, v); np.append(v, 1.0); np.split(x, 2, axis=1)
np.split(v, [1, 3]); np.array_split(v, 3); np.array_split(x, 2); np.hsplit(x, 2); np.vsplit(x, 3)
np.dsplit(t, 2); np.unstack(x, axis=1); np.block([[x, y], [y, x]]); np.block([v, w]); np.flip(x)
np.flip(x, 0); np.flip(t, (0, 2)); np.fliplr(x); np.flipud(x); np.rot90(x); np.rot90(x, 2)
np.rot90(x, -1); np.roll(x, 1); np.roll(x, -2, axis=1); np.roll(x, (1, 2), axis=(0, 1))
np.repeat(x, 2); np.repeat(x, [1, 0, 2], axis=0); x.repeat(2, axis=1); np.tile(x, 2)
np.tile(v, (2, 3)); np.tile(x, (2, 1, 1)); np.take(x, k); np.take(x, k, axis=1); x.take(k, axis=0)
np.take(x, [0, 5], axis=1, mode="wrap"); np.take(x, [-3, 9], axis=1, mode="clip"); np.take(v, 1)
np.take_along_axis(x, n, axis=1); np.take_along_axis(x, np.array([[0], [1], [2]]), 1)
np.diagonal(x); np.diagonal(t, 1, 0, 2); x.diagonal(-1); np.diag(x); np.diag(v); np.diag(v, -1)
np.diag(x, 1); np.diagflat(x); np.trace(x); np.trace(t, axis1=1, axis2=2); x.trace(1); np.tril(x)
np.lib.stride_tricks.sliding_window_view(x, 2, 1)
np.triu(x, 1); np.tril(t, -1); np.diff(x); np.diff(x, 2, axis=1); np.diff(x, axis=0)
np.diff(v, prepend=0.0); np.diff(x, axis=0, append=v[None]); np.ediff1d(x); np.trapezoid(x)
np.trapezoid(x, v); np.trapezoid(x, dx=0.5, axis=0); np.copy(x); x.copy(); s.copy(); np.copy(s)
np.pad(x, 1); np.pad(x, ((1, 0), (2, 1))); np.pad(v, 2, mode="edge")
np.pad(v, (1, 2), mode="reflect"); np.pad(x, 1, mode="wrap"); np.pad(x, 1, mode="symmetric")
np.pad(v, 1, constant_values=3.0); np.delete(v, 1); np.delete(x, [0, 2], axis=1)
np.zeros_like(x) + x; np.ones_like(x) * x; np.full_like(x, 2.0) * x; np.full_like(x, s)
np.empty_like(x).shape; x.astype(np.float32); x.astype(float); s.astype(np.float32); x.item(0)
z.item(); s.item() * x; np.extract(m, x); np.compress(m0, x, axis=0)
x.compress([True, False, True]); np.meshgrid(v, w); np.meshgrid(v, w, indexing="ij")
np.polyval([s, 2.0, z], x); np.astype(x, np.float32); np.trapezoid(w, axis=0)
np.fmax(x, 0.1).sum()
"""
INDEXING = """
x[0]; x[-1]; x[1, 2]; x[-1, -1]; x[1:]; x[::-1]; x[::-2, 1:3]; x[:, ::-1]; x[5:]; x[2:0:-1]
x[-2:, :-1]; x[None]; x[:, None]; x[..., 0]; x[0, ...]; x[...]; x[1, 2, ...]; x[..., None]
x[None, :, None, 1]; x[()]; z[()]; z[...]; z[None]; s[()]; s[None]; x[k[:3]]; x[:, k]; x[[0, 2]]
x[[0, 0, 1], [1, 1, 2]]; x[[0, -1], 1]; x[0, [1, 2]]; x[[[0], [2]], [1, 3]]; x[k[:3], None]
x[np.array([0, 0, 0])]; x[np.ix_([0, 2], [1, 3])]; x[(0, 1)]; x[[]]; x[:, []]; x[np.array(1)]
x[np.array(1), 2]; x[np.array(1), ...]; x[1, np.array(2)]; x[m]; x[m0]; x[:, m[0]]; x[m0, 1]
x[m0, 1:3]; x[1:, m[1]]; x[np.zeros(3, bool)]; x[m0.tolist()]; t[:, m]; t[m0[:2], :, [0, 1]]
x[True]; x[False]; x[None, m]; x[m0, None]; x[np.True_, 0]; t[0, :, [0, 1]]; t[:, [0, 1], :]
t[[0, 1], :, [1, 2]]; t[[0, 1], 1:, 2]; t[..., [0, 1]]; t[None, [0, 1]]; t[:, None, [0, 2]]
t[[0], None, [1]]; t[:, [0, 1], [1, 2]]; t[1, [0, 2]]; t[[[0, 1], [1, 0]], :, 0]
t[:, :, [[0, 1]]]; t[0, [1, 2], :2]; t[k[:2] * 0, ::2, -1]; x[np.argmax(x, axis=0)]
v[np.argmax(v)]; x[np.argmax(x[:, 0])]; x[np.int64(1)]; x[np.uint8(2), 1]; x[slice(1, None)]
x[(slice(None), 1)]; x[1][2]; x[::2][:, ::3]; list(v); [r.sum() for r in x]; v[k % 4] * 2
"""
PRODUCTS = """
[1.0, 2.0, 0.5, 3.0] @ v; v @ [1.0, 2.0, 0.5, 3.0]; x @ v; v @ x.T; a @ a; A @ a; a @ A; A @ A
v @ v; np.matmul(x, v); np.matmul(A, a); np.matmul(t, x.T); one @ v; v @ one.T; np.dot(x, v)
np.dot(v, v); np.dot(a, a); np.dot(x, 2.0); np.dot(t, x.T); np.dot(s, x); x.dot(v); x.dot(y.T)
np.dot(A, A); np.vdot(x, y); np.inner(x, y); np.inner(v, v); np.inner(t, x); np.inner(s, x)
np.outer(v, w); np.outer(x, w); np.kron(v, w); np.kron(x, a); np.kron(v, a); np.tensordot(x, y)
np.tensordot(t, x, axes=2); np.tensordot(x, y, axes=0); np.tensordot(t, x, axes=([1, 2], [0, 1]))
np.tensordot(x, y, axes=(0, 0)); np.tensordot(t, x, axes=(-1, 1)); np.cross(v3, w)
np.cross(a, v3); np.cross(a, a.T, axis=0); np.cross(A, v3); np.vecdot(x, y); np.matvec(A, w)
np.vecmat(w, A); np.einsum("ij,ij", x, y); np.einsum("ij->ji", x); np.einsum("ii", a)
np.einsum("ii->i", a); np.einsum("ij,j->i", x, v); np.einsum("ij,kj->ik", x, y)
np.einsum("i,j", v, w); np.einsum("ij->", x); np.einsum("...ij,...jk", A, A)
np.einsum("...i->...", t); np.einsum("bij,jk,bk->bi", t, y.T, t[:, :, 0])
np.einsum("ij,ij,ij->j", x, y, p); np.einsum("ijk,jil->kl", t, np.swapaxes(t, 0, 1))
np.einsum("ii,ij->j", a, x); np.einsum("i,i,i", v, v, v); np.einsum("a...,a...->...", x, y)
np.einsum("ij, jk", a, a); np.einsum(x, [0, 1], v, [1], [0]); np.einsum(x, [0, 1])
np.einsum("ij,jk,kl->il", a, a, x, optimize=True); np.einsum("i,j->", v, w)
np.einsum("ij,j->ij", x, v); np.einsum("...j,j->...", x, v); np.einsum("ij,k->ijk", x, v)
np.einsum(",ij", s, x); np.einsum("ji,i", x.T, w[:3]); np.einsum("iij->j", np.stack([a, a, a]))
np.linalg.solve(a, w); np.linalg.solve(a, x); np.linalg.solve(A, x); np.linalg.solve(A, w)
np.linalg.solve(a, A); np.linalg.inv(a); np.linalg.inv(A); np.linalg.det(a); np.linalg.det(A)
np.linalg.slogdet(a); np.linalg.slogdet(A); np.linalg.slogdet(c)[1]; np.linalg.det(e[:, :0])
np.linalg.cholesky(c); np.linalg.cholesky(C); np.linalg.cholesky(c, upper=True)
np.linalg.cholesky(a @ a.T); np.linalg.cholesky(a.T @ a, upper=True); np.linalg.norm(x)
np.linalg.norm(v); np.linalg.norm(x, axis=1); np.linalg.norm(x, axis=0, keepdims=True)
np.linalg.norm(v, 1); np.linalg.norm(v, 3); np.linalg.norm(x, np.inf, axis=1)
np.linalg.norm(v, -np.inf); np.linalg.norm(v, 0); np.linalg.norm(x, "fro"); np.linalg.norm(x, 1)
np.linalg.norm(x, np.inf); np.linalg.norm(x, -1); np.linalg.norm(t)
np.linalg.norm(t, axis=(1, 2)); np.linalg.norm(t, 1, axis=(0, 2))
np.linalg.norm(x, axis=1, ord=2.5); np.linalg.norm(v, -1); np.linalg.norm(x, keepdims=True)
np.linalg.norm(t, axis=(2, 0), ord=np.inf, keepdims=True); np.linalg.matrix_power(a, 3)
np.linalg.matrix_power(a, 0); np.linalg.matrix_power(a, -2); np.linalg.multi_dot([x, y.T, a, w])
np.linalg.matmul(a, a); np.linalg.outer(v, w); np.linalg.cross(a, a.T); np.linalg.tensordot(x, y)
np.linalg.vecdot(x, y); np.linalg.matrix_transpose(t); np.linalg.diagonal(t); np.linalg.trace(t)
np.linalg.vector_norm(x); np.linalg.vector_norm(x, axis=1, ord=1); np.linalg.matrix_norm(t)
"""


def split(table):
    """The expressions of a table: one a line, or several with ``;`` between."""
    return [case.strip() for line in table.splitlines() for case in line.split(";") if case.strip()]


def tables(section):
    """The expressions under ``[section]`` in the files of `cases`."""
    found = []
    for path in sorted((Path(__file__).parents[1] / "cases").glob("*.txt")):
        parts = re.split(r"^\[(\w+)\]$", path.read_text(), flags=re.MULTILINE)
        found += [
            c
            for k, t in zip(parts[1::2], parts[2::2], strict=True)
            if k == section
            for c in split(t)
        ]
    return found


CASES = [
    case
    for table in (ELEMENTWISE, LOGICAL, REDUCTIONS, SHAPES, INDEXING, PRODUCTS)
    for case in split(table)
] + tables("cases")
# Cases where a shape depends on values: these are given to the trace, as a caller gives them.
LOOKING = {*tables("looking")}
CASES += sorted(LOOKING)


def names_in(case):
    return [
        name
        for name in ARRAYS
        if re.search(rf"(?<![\w.\"]){name}(?![\w\"=])", re.sub(r'"[^"]*"', '""', case))
    ]


def given(case, kind):
    """Arrays a case is traced with, and its constants, floats turned into `kind`."""
    moving, fixed = {}, {}
    for name in names_in(case):
        array = ARRAYS[name]
        if name in CONSTANT and name != "one":
            fixed[name] = array
        elif name == "f":
            moving[name] = array
        elif np.iscomplexobj(array):
            moving[name] = array.astype(np.complex64) if kind == "f4" else array
        else:
            cast = (
                array
                if kind == "f8"
                else (np.trunc(3 * np.nan_to_num(array)) if kind == "i8" else array).astype(kind)
            )
            (fixed if name in CONSTANT else moving)[name] = cast
    return moving, fixed


def run(case, scope, np_=np):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy, where it divides by nothing
        names = {"np": np_, "operator": operator, "after": after, **scope}
        return eval(compile(case, "<case>", "eval"), names)


def after(array, store):
    """The array when `store` has written to it."""
    store(array)
    return array


def parts(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def trace_case(case, moving, fixed):
    inputs = [
        ArgumentSpec(
            type_of(np.asarray(a)),
            scalar=np.ndim(a) == 0 and not isinstance(a, np.ndarray),
            weak=isinstance(a, float) and not isinstance(a, np.generic),
            value=np.asarray(a)
            if case in LOOKING or np.asarray(a).dtype.kind not in "fc"
            else None,
        )
        for a in moving.values()
    ]
    return record(
        lambda trace, arguments: parts(
            run(case, {**dict(zip(moving, arguments, strict=True)), **fixed})
        ),
        inputs,
        "test",
    )


@pytest.mark.parametrize("kind", ["f8", "f4", "i8"])
@pytest.mark.parametrize("case", CASES)
def test_values_dtypes_and_scalars_are_those_of_numpy(case, kind):
    moving, fixed = given(case, kind)
    if kind == "i8" and "f" in moving:
        return  # a Python int is a constant
    try:
        expected = parts(run(case, {**moving, **fixed}))
    except (TypeError, ValueError, np.linalg.LinAlgError) as error:
        with pytest.raises(type(error)):  # what NumPy refuses is refused, while traced or when run
            values(trace_case(case, moving, fixed).tape, *moving.values())
        return
    recording = trace_case(case, moving, fixed)
    verify(recording.tape)
    out = values(recording.tape, *map(np.asarray, moving.values()))
    assert len(out) == len(expected)
    for value, scalar, e in zip(out, recording.scalars, expected, strict=True):
        # sums in another order: some ulp; float32 goes through a few roundings more
        tolerance = 2e-5 if kind == "f4" else 1e-13
        assert value.dtype == np.asarray(e).dtype
        assert value.shape == np.shape(e)
        finite = np.abs(e[np.isfinite(e)]) if np.ndim(e) else np.abs(e)
        np.testing.assert_allclose(
            value, e, rtol=tolerance, atol=tolerance * float(np.max(finite, initial=1.0))
        )
        assert scalar == (not isinstance(e, np.ndarray)), "scalar or 0-d array"


# --- derivatives -------------------------------------------------------------------------------


def floating_outputs(case):
    """The floating outputs of a case in float64, by number; none if no input is floating."""
    moving, fixed = given(case, "f8")
    with np.errstate(all="ignore"):
        expected = parts(run(case, {**moving, **fixed}))
    if not any(np.asarray(a).dtype.kind in "fc" for a in moving.values()):
        return []
    return [
        k
        for k, e in enumerate(expected)
        if isinstance(e, (np.ndarray, np.inexact, float)) and np.asarray(e).dtype.kind in "fc"
    ]


def smooth(case):
    """The tape of a case in float64 whose outputs are its floating ones, with its arguments."""
    moving, fixed = given(case, "f8")
    chosen = floating_outputs(case)
    inputs = [
        ArgumentSpec(
            type_of(np.asarray(a)),
            weak=isinstance(a, float) and not isinstance(a, np.generic),
            value=np.asarray(a) if case in LOOKING else None,
        )
        for a in moving.values()
    ]
    tape = record(
        lambda trace, xs: [
            parts(run(case, {**dict(zip(moving, xs, strict=True)), **fixed}))[k] for k in chosen
        ],
        inputs,
        "test",
    ).tape
    return verify(tape), [np.asarray(a) for a in moving.values()], list(moving), fixed, chosen


DIFFERENTIABLE = [case for case in CASES if floating_outputs(case)]


@pytest.mark.parametrize("case", DIFFERENTIABLE)
def test_derivatives_to_second_order(case, rng):
    """JVP against differences and complex step, VJP against JVP; then the same of the VJP."""
    tape, xs, *_ = smooth(case)
    check_derivatives(tape, xs, rng)
    pulled = verify(vjp(tape, floating(tape)))
    seeds = like(rng, pulled.input_types[len(xs) :])
    check_derivatives(pulled, [*xs, *seeds], rng)


# What JAX cannot be asked: functions and keywords it lacks, lists it refuses, no derivative rule.
LACKING = """
np.nextafter(x, y); np.spacing(x); np.fix(x); np.add(x, y, dtype=float)
np.multiply(x, y, dtype=np.float32); np.real_if_close(x); np.sum([s, z]); np.fmax.reduce(x)
np.fmin.reduce(x, axis=1); np.divide.outer(v, w); np.power.outer(p, v); np.hypot.outer(v, w)
np.arctan2.outer(v, w); np.repeat(x, [1, 0, 2], axis=0); np.take(x, [0, 5], axis=1, mode="wrap")
np.take(x, [-3, 9], axis=1, mode="clip"); np.delete(x, [0, 2], axis=1)
x.compress([True, False, True]); np.polyval([s, 2.0, z], x); [1.0, 2.0, 0.5, 3.0] @ v
v @ [1.0, 2.0, 0.5, 3.0]; x[np.ix_([0, 2], [1, 3])]; x[[]]; x[m0.tolist()]; x[[0, 2]]
np.maximum(cx, cv); np.minimum(cx, cv)
x[np.True_, 0]; x.item(0); z.item(); s.item() * x; np.linalg.det(e[:, :0])
np.lib.stride_tricks.sliding_window_view(x, 2, 1)
"""
# JAX's derivative of `cholesky` takes its argument as symmetric; NumPy reads the lower triangle.
OTHERWISE = """
np.linalg.cholesky(c); np.linalg.cholesky(C); np.linalg.cholesky(c, upper=True)
"""


NOT_OF_JAX = {*split(LACKING + OTHERWISE), *tables("lacking")}


@pytest.mark.slow  # minutes in all: JAX compiles each operation; derivatives are checked above too
@pytest.mark.parametrize("case", [c for c in DIFFERENTIABLE if c not in NOT_OF_JAX])
def test_gradient_is_that_of_jax(case, rng):
    tape, xs, names, fixed, chosen = smooth(case)

    def f(*args):
        out = parts(run(case, {**dict(zip(names, args, strict=True)), **fixed}, jnp))
        return [jnp.asarray(out[k]) for k in chosen]

    outs, pull = jax.vjp(f, *map(jnp.asarray, xs))
    bars = like(rng, outs)  # both pair cotangents of complex values plainly
    ours = values(verify(vjp(tape, floating(tape))), *xs, *bars)[len(outs) :]
    for g, h in zip(ours, pull([jnp.asarray(b) for b in bars]), strict=True):
        np.testing.assert_allclose(g, h, rtol=1e-11, atol=1e-11 * np.max(np.abs(h), initial=1.0))


# --- every handler is reached ------------------------------------------------------------------


OUTER = [key for key in UFUNC_METHODS if key[1] == "outer"]


@pytest.mark.parametrize("key", OUTER, ids=lambda key: f"{key[0].__name__}.outer")
def test_every_outer(key):
    kind = "d" if any(t.startswith("dd") for t in key[0].types) else "l"
    v, w = (ARRAYS["p"].ravel()[:3] * 2).astype(kind), ARRAYS["p"][:, :2].astype(kind)
    w = np.abs(w.astype("i")) if key[0] is np.ldexp else w
    expected = key[0].outer(v, w)
    tape = verify(
        record(
            lambda trace, xs: [key[0].outer(*xs)],
            [ArgumentSpec(type_of(v)), ArgumentSpec(type_of(w))],
            "test",
        ).tape
    )
    assert tape.output_types == (type_of(expected),)
    # float_power goes through another loop of NumPy's than power: an ulp
    np.testing.assert_allclose(values(tape, v, w)[0], expected, rtol=4e-16)


class Calls:
    """What the cases themselves call, not what handlers call while they answer."""

    def __init__(self):
        self.seen = set()
        self.depth = 0

    def wrap(self, key, handler):
        def call(*args, **keywords):
            if not self.depth:
                self.seen.add(key)
            self.depth += 1
            try:
                return handler(*args, **keywords)
            finally:
                self.depth -= 1

        return call


def array_members():
    """Methods and properties of arrays that traced arrays have too."""
    plain = {n for n in vars(np.ndarray) if not n.startswith("__")}
    dunder = {
        f"__{r}{n}__"
        for n in [
            "add",
            "sub",
            "mul",
            "truediv",
            "floordiv",
            "mod",
            "pow",
            "and",
            "or",
            "xor",
            "lshift",
            "rshift",
            "matmul",
            "divmod",
        ]
        for r in ("", "r")
    }
    dunder |= {
        f"__{n}__"
        for n in ["eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "getitem"]
    }
    return (plain | dunder) & set(vars(TracedArray))


@pytest.mark.slow
def test_every_handler_has_a_case(monkeypatch):
    calls = Calls()
    # Tested below, and in tests/functional/test_bad_input.py.
    refused = {"nonzero", "tobytes", np.may_share_memory}
    for table in (FUNCTIONS, UFUNCS, UFUNC_METHODS):
        for key, handler in list(table.items()):
            monkeypatch.setitem(table, key, calls.wrap(key, handler))
    members = array_members()
    for name in members:
        member = vars(TracedArray)[name]
        wrapped = (
            property(calls.wrap(name, member.fget))
            if isinstance(member, property)
            else calls.wrap(name, member)
        )
        if callable(member) or isinstance(member, property):
            monkeypatch.setattr(TracedArray, name, wrapped)
    for case in CASES:
        moving, fixed = given(case, "f8")
        with np.errstate(all="ignore"):
            trace_case(case, moving, fixed)
    # Those of SciPy have tests of their own.
    ufuncs = {ufunc for ufunc in UFUNCS if getattr(np, ufunc.__name__, None) is ufunc}
    expected = {*FUNCTIONS, *ufuncs, *UFUNC_METHODS, *members} - set(OUTER) - refused
    missing = expected - calls.seen
    assert "; ".join(sorted(str(m) for m in missing)) == ""


# --- what is refused ---------------------------------------------------------------------------

# NumPy raises, and fdiff raises an error of the same class.
ERRORS = """
x + w; x * np.ones(3); np.where(m, x, w); x @ x; x @ w; np.dot(x, x); np.matmul(s, x); a @ z
np.inner(x, w); np.tensordot(x, t); np.vdot(x, v); np.outer(x, v) @ x; np.sum(x, axis=2)
x.sum(axis=-3); np.sum(x, axis=(0, 0)); np.mean(x, axis=5); np.max(x, axis=2); np.max(e)
np.min(e, axis=0); np.argmax(e); np.cumsum(x, axis=2); np.cumprod(z, axis=1); np.max(x, where=m)
np.argmax(x, axis=3); np.prod(x, axis="a"); np.reshape(x, (5, 2)); x.reshape(5, -1)
x.reshape(-1, -1); np.transpose(x, (0, 0)); np.transpose(x, (0,)); np.transpose(t, (0, 1, 3))
np.swapaxes(x, 0, 2); np.moveaxis(x, 2, 0); np.moveaxis(x, (0, 1), (0,)); np.squeeze(x, 0)
np.expand_dims(x, 5); np.rollaxis(x, 3); np.broadcast_to(x, (4, 3)); np.broadcast_arrays(x, w)
np.concatenate([x, v]); np.concatenate([x, y.T]); np.concatenate([x, y], axis=2)
np.concatenate([s, z]); np.stack([x, v]); np.stack([x, y], axis=4); np.hstack([x, w])
np.vstack([x, w]); np.split(v, 3); np.hsplit(s, 2); np.vsplit(v, 2); np.dsplit(x, 2); x[3]; x[-4]
x[0, 4]; x[0, 0, 0]; z[0]; s[0]; x[1.0]; x["a"]; x[[0, 3]]; x[:, [4]]; x[np.ones(4, bool)]
x[np.ones((3, 3), bool)]; x[..., ...]; x[[0.5]]; x[[0, 1], [0, 1, 2]]; x[m, 0]; len(z); len(s)
iter(z); list(s); x[::0]; np.take(x, 12); np.take(x, 3, axis=0); np.take(x, 0, axis=2)
np.take_along_axis(x, k, axis=0); np.repeat(x, [1, 2], axis=0); np.diag(t); np.diagonal(v)
np.trace(v); np.tril(z); np.diff(z); np.diff(x, n=-1); np.rot90(x, axes=(0, 0)); np.rot90(v)
np.delete(x, 5, axis=1); np.cross(x, x); np.einsum("ij,jk", x, x); np.einsum("ij", v)
np.einsum("ij->k", x); np.einsum("ij,jk", x); np.einsum("ij->ii", x); np.kron(x); np.unstack(z)
np.block([[x], y]); np.block([[x, v], [y]]); np.meshgrid(v, w, indexing="yx")
np.pad(x, ((1, 2), (3, 4), (5, 6))); np.linalg.solve(x, v); np.linalg.solve(a, v)
np.linalg.solve(v, v); np.linalg.inv(x); np.linalg.inv(v); np.linalg.det(x); np.linalg.det(v)
np.linalg.slogdet(x); np.linalg.cholesky(x); np.linalg.norm(t, 2); np.linalg.norm(x, "abc")
np.linalg.norm(v, "fro"); np.linalg.norm(x, axis=2); np.linalg.norm(t, "fro")
np.linalg.norm(x, 0); np.linalg.norm(x, 3); np.linalg.matrix_power(x, 2)
np.linalg.matrix_power(a, 1.5); np.linalg.multi_dot([x]); np.linalg.outer(x, v)
np.average(x, weights=v); np.average(x, axis=0, weights=v); np.cumulative_sum(x); np.sin()
np.clip(x, 0, 1, min=2); np.clip(x, w, 1); np.select([m], [x, y]); np.trapezoid(x, w); x.item()
x.item(12); x.item(3, 0); x.reshape(); ~x; x & y; x << 1; np.bitwise_and(x, y)
np.left_shift(x, 1); np.gcd(x, y); np.ldexp(x, y); x.nosuch; np.add(x, y, dtype=int); x ^ 1
np.sum(x, axis=1.5); x.transpose(0); np.round(x, "a"); x.swapaxes(0); np.ravel(x, "X"); x + "a"
x + None; x < "a"
"""
NUMPY_ERRORS = (TypeError, ValueError, IndexError, AttributeError, np.linalg.LinAlgError)


@pytest.mark.parametrize("case", split(ERRORS) + tables("errors"))
def test_errors_are_those_of_numpy(case):
    moving, fixed = given(case, "f8")
    with pytest.raises(NUMPY_ERRORS) as theirs:
        run(case, {**moving, **fixed})
    public = (
        np.exceptions.AxisError,
        np.linalg.LinAlgError,
        *NUMPY_ERRORS,
    )  # the nearest class one can catch
    with pytest.raises(next(kind for kind in public if issubclass(theirs.type, kind))) as ours:
        trace_case(case, moving, fixed)
    assert not issubclass(ours.type, UnsupportedError)


# fdiff raises, and says which function it was.
UNSUPPORTED = """
np.sin(x, where=m); np.add(x, y, where=m); np.matmul(a, a, axes=[(0, 1), (0, 1), (0, 1)])
x.data; np.histogram(x, bins="stone")
"""
CONCRETE = """
np.nonzero(x); np.flatnonzero(x); np.argwhere(x); np.unique(y); x.nonzero(); np.where(x > 0)
y[y > 0]; np.repeat(w, np.argmax(w)); x.astype(str)
np.sin(x, out=np.empty((3, 4))); np.sin(x, np.empty((3, 4))); x.view(int)
np.sum(x, axis=0, out=np.empty(4)); bool(x[0, 0] > 0); float(s); int(s); complex(s)
np.asarray(x, dtype=float); range(3)[np.argmax(v)]; operator.setitem(x, 0, 1.0)
operator.iadd(np.ones(4), v); np.compress(v > 0, y, axis=1)
np.extract(y > 0, y); x.tobytes()
"""


@pytest.mark.parametrize("case", split(UNSUPPORTED))
def test_unsupported_functions_are_named(case):
    moving, fixed = given(case, "f8")
    named = re.match(r"(?:np|[a-z])\.([\w.]+)", case)[1]
    with pytest.raises(UnsupportedError, match=named.replace(".reduce", r"\.reduce")):
        trace_case(case, moving, fixed)


@pytest.mark.parametrize("case", split(CONCRETE))
def test_values_never_leave_the_trace(case):
    moving, fixed = given(case, "f8")
    with pytest.raises(TraceError):
        trace_case(case, moving, fixed)


def test_errors_show_the_line_of_the_user():
    def model(x):
        y = np.sin(x)
        return np.packbits(y)  # the line at fault

    with pytest.raises(UnsupportedError) as error:
        record(lambda trace, xs: [model(*xs)], [ArgumentSpec(type_of(np.ones(3)))], "grad(model)")
    text = str(error.value)
    assert "grad(model): numpy.packbits has no derivative rule" in text
    assert "test_functions.py:" in text
    assert "return np.packbits(y)  # the line at fault" in text


def test_a_leaked_array_says_where_it_was_made():
    kept = []
    record(
        lambda trace, xs: [kept.append(np.sin(xs[0])) or xs[0]],
        [ArgumentSpec(type_of(np.ones(3)))],
        "grad(f)",
    )
    with pytest.raises(LeakError, match="used after its trace had ended"):
        np.cos(kept[0])
    with pytest.raises(LeakError, match="made here"):
        record(lambda trace, xs: [xs[0] + kept[0]], [ArgumentSpec(type_of(np.ones(3)))], "grad(f)")

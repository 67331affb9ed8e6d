"""The number formats of the release and their quantisers (specification, sections N.1 to N.5, 9.3, 11.3).

`encode_*` gives what a file stores, `decode_*` the exact values back. `fake(format, w)` does both: the values that the exported
model will have. `ste_*` quantise a cache row inside the network and pass gradients straight through.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
INV_448, INV_6 = torch.tensor(1 / 448), torch.tensor(1 / 6)


def pow2_byte(amax: Tensor, r: Tensor) -> Tensor:
    """E8M0 byte of the smallest power of two >= amax * r, found on the bits (N.2)."""
    bits = (amax.float() * r.to(amax.device)).view(torch.int32)
    return ((bits >> 23) & 255) + ((bits & 0x7FFFFF) != 0).int()


def e8m0(byte: Tensor) -> Tensor:
    """2^(byte - 127) for bytes 1 to 254."""
    return (byte.int() << 23).view(torch.float32)


def e4m3(x: Tensor) -> Tensor:
    """Clamped, then rounded to nearest even (N.1)."""
    return x.clamp(-448, 448).to(torch.float8_e4m3fn)


def e2m1(x: Tensor) -> Tensor:
    """Values of E2M1, ties to the even code (N.1): steps of 1/2 below 2, of 1 below 4, of 2 up to 6."""
    a = x.abs().clamp_(max=6)
    # Half of the power of two below the value, read from the exponent bits, at least 1/2.
    step = (a.view(torch.int32) & 0x7F800000).view(torch.float32).clamp_(min=1).mul_(0.5)
    return torch.copysign((a / step).round_().mul_(step), x)


def pack(values: Tensor) -> Tensor:
    """E2M1 values as codes, two per byte, the even column in the low nibble."""
    codes = torch.bucketize(values.abs(), E2M1.to(values.device)) + 8 * torch.signbit(values)
    return (codes[..., 0::2] + 16 * codes[..., 1::2]).to(torch.uint8)


def unpack(packed: Tensor) -> Tensor:
    """Inverse of :func:`pack`."""
    codes = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2).long()
    table = torch.cat([E2M1, -E2M1]).to(packed.device)
    return table[codes]


def encode_fp8(w: Tensor) -> tuple[Tensor, Tensor]:
    """`[out, in]` to E4M3 codes and one E8M0 byte per tile of 32 x 32."""
    rows, cols = w.shape
    tiles = F.pad(w, (0, -cols % 32, 0, -rows % 32)).unflatten(0, (-1, 32)).unflatten(-1, (-1, 32))
    byte = pow2_byte(tiles.abs().amax((1, 3)).clamp(min=1e-4), INV_448)
    codes = (tiles / e8m0(byte)[:, None, :, None]).flatten(2).flatten(0, 1)[:rows, :cols]
    return e4m3(codes), byte.to(torch.uint8)


def decode_fp8(codes: Tensor, scale: Tensor) -> Tensor:
    rows, cols = codes.shape
    full = e8m0(scale)[:, None, :, None].expand(-1, 32, -1, 32).flatten(2).flatten(0, 1)
    return codes.float() * full[:rows, :cols]


def _fp4_groups(w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Groups of 32 columns: rounded values `q` in units of the scale, scales, and their bytes.

    The scale may also be one step smaller, which clips the largest weight and is finer for the others; the smaller squared error counts.
    """
    groups = w.unflatten(-1, (-1, 32))
    byte = pow2_byte(groups.abs().amax(-1, keepdim=True).clamp(min=1e-6), INV_6)
    coarse, fine = e8m0(byte), e8m0(byte - 1)
    q, finer = e2m1(groups / coarse), e2m1(groups / fine)
    error = lambda q, scale: (q * scale).sub_(groups).square_().sum(-1, keepdim=True)  # noqa: E731
    better = error(finer, fine) < error(q, coarse)
    return torch.where(better, finer, q), torch.where(better, fine, coarse), torch.where(better, byte - 1, byte)


def encode_fp4(w: Tensor) -> tuple[Tensor, Tensor]:
    """`[..., out, in]` to packed E2M1 and one E8M0 byte per 32 columns of a row."""
    q, _, byte = _fp4_groups(w)
    return pack(q.flatten(-2)), byte[..., 0].to(torch.uint8)


def decode_fp4(packed: Tensor, scale: Tensor) -> Tensor:
    return unpack(packed) * e8m0(scale).repeat_interleave(32, -1)


def encode_rows(w: Tensor) -> tuple[Tensor, Tensor]:
    """Engram rows: E4M3 and one E8M0 byte per 32 columns of a row (2.4)."""
    groups = w.unflatten(-1, (-1, 32))
    byte = pow2_byte(groups.abs().amax(-1).clamp(min=1e-4), INV_448)
    return e4m3(groups / e8m0(byte)[..., None]).flatten(-2), byte.to(torch.uint8)


def decode_rows(codes: Tensor, scale: Tensor) -> Tensor:
    return codes.float() * e8m0(scale).repeat_interleave(32, -1)


CODECS = {"fp8": (encode_fp8, decode_fp8), "fp4": (encode_fp4, decode_fp4), "rows": (encode_rows, decode_rows)}


def fake(format: str, w: Tensor) -> Tensor:
    """What `w` becomes in a file of this format: fp8, fp4, rows, bf16 or f32."""
    if format == "f32":
        return w
    if format == "bf16":
        return w.bfloat16().float()
    if format == "fp4":
        q, scale, _ = _fp4_groups(w)
        return (q * scale).flatten(-2)
    encode, decode = CODECS[format]
    return decode(*encode(w))


def _straight_through(x: Tensor, quantised: Tensor) -> Tensor:
    return x + (quantised - x).detach()


def ste_fp8(x: Tensor) -> Tensor:
    """Window rows: E4M3 per 32 with power-of-two scales (N.3)."""
    groups = x.detach().unflatten(-1, (-1, 32))
    scale = e8m0(pow2_byte(groups.abs().amax(-1, keepdim=True).clamp(min=1e-4), INV_448))
    return _straight_through(x, (e4m3(groups / scale).float() * scale).flatten(-2))


def ste_kv4(x: Tensor) -> Tensor:
    """Compressed entries: E2M1 per 16 with E4M3 scales (N.4)."""
    groups = x.detach().unflatten(-1, (-1, 16))
    scale = e4m3(groups.abs().amax(-1, keepdim=True).clamp(min=6 / 512) / 6).float()
    return _straight_through(x, (e2m1(groups / scale) * scale).flatten(-2))


def ste_idx4(x: Tensor) -> Tensor:
    """Index queries and keys: E2M1 per 32 with power-of-two scales (N.5)."""
    groups = x.detach().unflatten(-1, (-1, 32))
    scale = e8m0(pow2_byte(groups.abs().amax(-1, keepdim=True).clamp(min=6 * 2.0**-126), INV_6))
    return _straight_through(x, (e2m1(groups / scale) * scale).flatten(-2))

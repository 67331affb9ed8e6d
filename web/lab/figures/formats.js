// The number formats of the caches: E2M1 (four bits), E4M3 and E8M0 (eight bits).

/** Magnitudes of E2M1, by the lower three bits. */
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

/** @param {number} nibble */
export const e2m1 = (nibble) => (nibble & 8 ? -1 : 1) * (E2M1[nibble & 7] ?? 0);

/** Sign, four bits of exponent with bias 7, three of mantissa; exponent 0 is subnormal. @param {number} byte */
export function e4m3(byte) {
  const [exponent, mantissa] = [(byte >> 3) & 15, byte & 7];
  const size = (byte & 127) === 127 ? NaN : exponent ? 2 ** (exponent - 7) * (1 + mantissa / 8) : 2 ** -6 * (mantissa / 8);
  return byte & 128 ? -size : size;
}

/** A power of two with bias 127. @param {number} byte */
export const e8m0 = (byte) => (byte === 255 ? NaN : 2 ** (byte - 127));

/** Two hex digits. */
export const hex = (/** @type {number} */ byte) => byte.toString(16).toUpperCase().padStart(2, '0');
/** Binary digits, at least `width`. */
export const binary = (/** @type {number} */ value, /** @type {number} */ width) => value.toString(2).padStart(width, '0');

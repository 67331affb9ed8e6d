// A session as a file, as far as a test looks into it; crate/generate/snapshot.rs has the whole format.

/** All ids of a session: those that have run through the model, and one that waits. @param {Uint8Array} bytes */
export function idsOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [waits, count] = [view.getUint8(39) & 1, Number(view.getBigUint64(40, true))];
  const places = Array.from({ length: count }, (_, i) => 48 + 4 * i);
  if (waits) places.push(48 + 5 * count);
  return places.map((at) => view.getUint32(at, true));
}

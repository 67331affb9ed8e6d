// Pictures: the reader's own, by button, drop or paste, and the small copy that figure 1A carries. Only canvases, so no image source needs the policy's leave.

import { el, grouped } from '../dom.js';

/** Bytes of a picture file that are still read. */
export const MAX_FILE = 40_000_000;

/** Pixels of a side that are still read: what every browser can hold in a canvas. */
const MAX_SIDE = 16_384;

/** The preview fits into this box. */
const PREVIEW = { width: 216, height: 72 };

/** @typedef {{ bytes: ArrayBuffer, name: string }} Own */
/** @typedef {{ key: string, values: Record<string, string|number> }} Refusal */

/**
 * Reads a file as a picture, with a small preview.
 * @param {File} file
 * @returns {Promise<{ own: Own, preview: HTMLCanvasElement } | { refusal: Refusal }>}
 */
export async function read(file) {
  const name = file.name || 'picture';
  if (file.type && !file.type.startsWith('image/')) return { refusal: { key: 'picture.wrongType', values: { name, type: file.type } } };
  if (file.size > MAX_FILE) return { refusal: { key: 'picture.tooLarge', values: { name, size: Math.round(file.size / 1e6), limit: MAX_FILE / 1e6 } } };
  try {
    const bitmap = await createImageBitmap(file);
    const { width, height } = bitmap;
    if (Math.max(width, height) > MAX_SIDE) {
      bitmap.close();
      return { refusal: { key: 'picture.tooWide', values: { name, width: grouped(width), height: grouped(height), limit: grouped(MAX_SIDE) } } };
    }
    const scale = Math.min(PREVIEW.width / width, PREVIEW.height / height);
    const size = { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
    const preview = el('canvas', { ...size, 'aria-hidden': 'true' });
    preview.getContext('2d')?.drawImage(bitmap, 0, 0, size.width, size.height);
    bitmap.close();
    return { own: { bytes: await file.arrayBuffer(), name }, preview };
  } catch (error) {
    return { refusal: { key: 'picture.unreadable', values: { name, error: String(error) } } };
  }
}

/** The first picture among dropped or pasted things. @param {DataTransfer|null} data @returns {File|null} */
export function fileOf(data) {
  const files = [...(data?.files ?? [])];
  return files.find((file) => file.type.startsWith('image/')) ?? files[0] ?? null;
}

/**
 * The small copy of the picture in figure 1A.
 * @param {any} figure
 * @returns {HTMLCanvasElement|null}
 */
export function thumbnail(figure) {
  const picture = figure?.picture;
  if (!picture?.rgb) return null;
  const [width, height] = picture.thumb;
  const raw = atob(picture.rgb);
  const pixels = new ImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel += 1) {
    for (let channel = 0; channel < 3; channel += 1) pixels.data[pixel * 4 + channel] = raw.charCodeAt(pixel * 3 + channel);
    pixels.data[pixel * 4 + 3] = 255;
  }
  const canvas = el('canvas', { width, height, 'aria-hidden': 'true' });
  canvas.getContext('2d')?.putImageData(pixels, 0, 0);
  return canvas;
}

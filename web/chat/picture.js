// Pictures for a question. They are shown on canvases, so that no image source needs the leave of the page's policy.

import { el } from '../dom.js';
import { grouped } from '../lab/dom.js';
import { sizeText } from './words.js';

/** Bytes of a picture that are still sent. */
export const MAX_FILE = 10_000_000;
/** Pixels of a side that are still read. */
const MAX_SIDE = 8_192;
/** Pixels of a preview's side: twice what is shown, for fine displays. */
const PREVIEW = 192;
/** Pictures of one question. */
export const MAX_PICTURES = 4;

/** @typedef {{ name: string, url: string, preview: HTMLCanvasElement }} Picture */

/** The first bytes that tell the three formats; a file's own word for its type is a guess from its name. @param {Uint8Array} head */
function typeOf(head) {
  const text = String.fromCharCode(...head);
  if (text.startsWith('\x89PNG')) return 'image/png';
  if (text.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (text.startsWith('RIFF') && text.slice(8) === 'WEBP') return 'image/webp';
  return null;
}

/**
 * Reads a file as a picture; the string is a sentence on why it cannot.
 * @param {File} file
 * @param {import('./words.js').Say} say
 * @param {import('./words.js').Lang} lang
 * @returns {Promise<Picture | string>}
 */
export async function read(file, say, lang) {
  const name = file.name || say('picture');
  const type = typeOf(new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  if (!type) return say('picture.wrongType', { name });
  if (file.size > MAX_FILE) return say('picture.tooLarge', { name, size: sizeText(file.size, lang), limit: sizeText(MAX_FILE, lang) });
  try {
    const blob = new Blob([file], { type });
    const preview = canvas();
    const { width, height } = await draw(blob, preview);
    if (Math.max(width, height) > MAX_SIDE) {
      return say('picture.tooWide', { name, width: grouped(width), height: grouped(height), limit: grouped(MAX_SIDE) });
    }
    return { name, url: await dataUrl(blob), preview };
  } catch {
    return say('picture.unreadable', { name });
  }
}

/** The pictures among dropped or pasted things. @param {DataTransfer|null} data */
export const filesOf = (data) => [...(data?.files ?? [])];

/**
 * A small copy of a picture that is part of a message; empty where it cannot be read.
 * @param {string} url a `data:` or `blob:` address
 */
export function thumbnail(url) {
  const preview = canvas();
  void blobOf(url).then((blob) => draw(blob, preview)).catch(() => {});
  return preview;
}

const canvas = () => el('canvas', { width: PREVIEW, height: PREVIEW, 'aria-hidden': 'true' });

/** Draws the picture in the middle of a square. @param {Blob} blob @param {HTMLCanvasElement} preview */
async function draw(blob, preview) {
  const bitmap = await createImageBitmap(blob);
  const { width, height } = bitmap;
  const scale = PREVIEW / Math.min(width, height);
  preview.getContext('2d')?.drawImage(bitmap, (PREVIEW - width * scale) / 2, (PREVIEW - height * scale) / 2, width * scale, height * scale);
  bitmap.close();
  return { width, height };
}

/** @param {Blob} blob @returns {Promise<string>} */
function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(/** @type {string} */ (reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

/** Without fetch, which the policy may keep to a few hosts. @param {string} url */
async function blobOf(url) {
  const [, type, base64] = /^data:([^;,]*);base64,(.*)$/s.exec(url) ?? [];
  if (base64 === undefined) return (await fetch(url)).blob();
  return new Blob([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], { type });
}

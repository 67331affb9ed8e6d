// Prints how many bytes a file has after brotli at its best, which is what a static host sends.
import { readFileSync } from 'node:fs';
import { brotliCompressSync, constants } from 'node:zlib';

const bytes = readFileSync(process.argv[2]);
const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
console.log(brotliCompressSync(bytes, { params }).length);

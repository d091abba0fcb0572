import { open } from 'node:fs/promises';
import { ModelError } from './model-error.js';

/** Magic, version and the two counts: the smallest header there is. */
const HEADER_BYTES = 24;

/**
 * Looks at the head of a model file. What lies behind it is the engine's to check.
 * @throws ModelError not_found, invalid_file.
 */
export async function checkGgufFile(path: string): Promise<void> {
  const head = await readHead(path);
  const magic = head.toString('latin1', 0, 4);
  if (head.length < HEADER_BYTES)
    throw new ModelError('invalid_file', `${path} is no model: only ${head.length} bytes`);
  if (magic === 'GGUF') return;
  if (magic === 'FUGG')
    throw new ModelError('invalid_file', `${path} is a big-endian GGUF, which this machine cannot read`);
  const isPointer = head.toString('latin1').startsWith('version https://git-lfs');
  throw new ModelError(
    'invalid_file',
    isPointer
      ? `${path} is a Git LFS pointer, not the model itself: fetch it with git lfs pull`
      : `${path} is not a GGUF file (it begins with ${JSON.stringify(magic)})`,
  );
}

async function readHead(path: string): Promise<Buffer> {
  try {
    const file = await open(path);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') throw new ModelError('not_found', `there is no model file ${path}`);
    if (code === 'EISDIR') throw new ModelError('invalid_file', `${path} is a folder, not a model file`);
    if (code === 'EACCES') throw new ModelError('invalid_file', `${path} may not be read by this user`);
    throw new ModelError('invalid_file', `${path} cannot be read (${code ?? error})`);
  }
}

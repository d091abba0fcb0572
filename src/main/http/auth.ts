import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { PlimsollError } from '../../shared/errors.js';

const digest = (text: string) => createHash('sha256').update(text).digest();

/** Checks API keys in a time that does not depend on the key: digests of one length, all of them compared, every time. */
export class KeyRing {
  private readonly digests: Buffer[];

  constructor(keys: readonly string[]) {
    this.digests = keys.map(digest);
  }

  get isOpen(): boolean {
    return this.digests.length === 0;
  }

  /** Index of the caller's key; −1 where no key is asked for. @throws PlimsollError invalid_api_key. */
  identify(headers: IncomingHttpHeaders): number {
    if (this.isOpen) return -1;
    const key = presentedKey(headers);
    if (key === null) {
      throw new PlimsollError(
        'invalid_api_key',
        'An API key is needed: send it as "Authorization: Bearer KEY" or "x-api-key: KEY".',
      );
    }
    const presented = digest(key);
    let found = -1;
    this.digests.forEach((known, i) => {
      if (timingSafeEqual(known, presented)) found = i;
    });
    if (found < 0) throw new PlimsollError('invalid_api_key', 'The API key is not known.');
    return found;
  }

  /**
   * The prefix-cache salt of a request. What one key's requests left in the cache is not shown to another key's by a faster answer,
   * unless both name the same salt.
   */
  cacheSalt(keyIndex: number, salt: string | number | undefined): number {
    if (salt !== undefined) return digest(`salt ${salt}`).readInt32LE(0);
    return this.digests.length < 2 ? 0 : this.digests[keyIndex].readInt32LE(0);
  }
}

function presentedKey(headers: IncomingHttpHeaders): string | null {
  const bearer = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '');
  if (bearer) return bearer[1];
  const other = headers['x-api-key'];
  return typeof other === 'string' && other !== '' ? other : null;
}

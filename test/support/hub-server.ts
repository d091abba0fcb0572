/**
 * A Hub for tests: file lists, redirects to a storage server on another port (another host, as far as tokens go), ranges, and
 * scripted trouble. Everything that was asked is recorded.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What happens to one request for a file's bytes; the queue is served in order, then all goes well. */
export type Trouble =
  /** The connection ends after so many bytes of the answer's body, once the client has them (`clientHas`). */
  | { kind: 'break'; afterBytes: number }
  /** The body is complete by its length header and yet shorter than the file. */
  | { kind: 'truncate'; toBytes: number }
  /** After so many bytes nothing comes any more. */
  | { kind: 'hang'; afterBytes: number }
  /** A byte every few milliseconds. */
  | { kind: 'trickle' }
  | { kind: 'status'; status: number; headers?: Record<string, string> }
  /** Answers 200 with the whole file whatever range was asked. */
  | { kind: 'ignore-range' }
  /** Answers 206 with a part that was not asked for, as long as the one that was. */
  | { kind: 'wrong-part' }
  /** Other bytes, under another ETag, and broken off where said. */
  | { kind: 'other-content'; content: Buffer; etag: string; breakAfterBytes?: number };

export interface SeenRequest {
  server: 'hub' | 'storage';
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  /** performance.now(). */
  atMs: number;
}

export interface HubServer {
  endpoint: string;
  seen: SeenRequest[];
  /** For the coming requests to the storage. */
  troubles: Trouble[];
  /** Files by path inside the only repository; replace to publish another revision. */
  files: Map<string, Buffer>;
  /** Answers every request of the hub itself with this status, when set. */
  hubStatus: number;
  /** Entries in a page of the file list. */
  pageSize: number;
  /** Sent instead of the file list, when set. */
  listText: string | null;
  /** Tells that the client has so many bytes of the file: a connection that is to break there breaks now, with nothing in flight. */
  clientHas(receivedBytes: number): void;
  storageRequests(): SeenRequest[];
  close(): Promise<void>;
}

export function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Bytes that look like a GGUF file and repeat nowhere near. */
export function modelBytes(sizeBytes: number, seed = 1): Buffer {
  const content = Buffer.alloc(sizeBytes);
  for (let at = 0, state = seed; at < sizeBytes; at++) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    content[at] = state >> 16;
  }
  content.write('GGUF', 0, 'latin1');
  return content;
}

export async function startHubServer(repo: string, files: Record<string, Buffer>): Promise<HubServer> {
  const state = {
    files: new Map(Object.entries(files)),
    hubStatus: 200,
    pageSize: 1000,
    listText: null as string | null,
  };
  const breaking: Breaking = { atBytes: Number.POSITIVE_INFINITY, now: () => {} };
  const seen: SeenRequest[] = [];
  const troubles: Trouble[] = [];
  const record = (server: 'hub' | 'storage', request: IncomingMessage) =>
    seen.push({
      server,
      method: request.method ?? '',
      url: request.url ?? '',
      headers: request.headers,
      atMs: performance.now(),
    });

  const storage = createServer((request, response) => {
    record('storage', request);
    const content = state.files.get(decodeURIComponent((request.url ?? '').slice(1)));
    if (content === undefined) return void response.writeHead(404).end();
    serveFile(request, response, content, request.method === 'HEAD' ? undefined : troubles.shift(), breaking);
  });
  const storageUrl = await listen(storage);

  const hub = createServer((request, response) => {
    record('hub', request);
    const url = new URL(request.url ?? '', 'http://hub');
    if (state.hubStatus !== 200) return void response.writeHead(state.hubStatus).end('{"error":"no"}');
    if (state.listText !== null) return void response.writeHead(200).end(state.listText);
    if (url.pathname === `/api/models/${repo}/tree/main`) return serveTree(url, response, state);
    const file = url.pathname.match(/^\/[^/]+\/[^/]+\/resolve\/[^/]+\/(.+)$/)?.[1];
    if (!file || !url.pathname.startsWith(`/${repo}/`)) return void response.writeHead(404).end();
    response.writeHead(302, { location: `${storageUrl}/${file}` }).end();
  });
  const endpoint = await listen(hub);

  return Object.assign(state, {
    endpoint,
    seen,
    troubles,
    clientHas: (receivedBytes: number) => {
      if (receivedBytes >= breaking.atBytes) breaking.now();
    },
    storageRequests: () => seen.filter(({ server, method }) => server === 'storage' && method === 'GET'),
    close: async () => {
      for (const server of [hub, storage]) {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }
    },
  });
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function serveTree(
  url: URL,
  response: ServerResponse,
  { files, pageSize }: Pick<HubServer, 'files' | 'pageSize'>,
): void {
  const from = Number(url.searchParams.get('cursor') ?? 0);
  const entries = [...files].map(([path, content]) => ({
    type: 'file',
    oid: '0',
    size: content.length,
    path,
    lfs: { oid: sha256(content), size: content.length, pointerSize: 134 },
  }));
  const all = [{ type: 'directory', oid: '0', size: 0, path: 'folder' }, ...entries];
  const next = from + pageSize;
  url.searchParams.set('cursor', String(next));
  const link = next < all.length ? { link: `<${url.pathname}${url.search}>; rel="next"` } : {};
  response.writeHead(200, { 'content-type': 'application/json', ...link }).end(JSON.stringify(all.slice(from, next)));
}

interface Breaking {
  atBytes: number;
  now: () => void;
}

function serveFile(
  request: IncomingMessage,
  response: ServerResponse,
  whole: Buffer,
  trouble: Trouble | undefined,
  breaking: Breaking,
): void {
  if (trouble?.kind === 'status') return void response.writeHead(trouble.status, trouble.headers).end();
  const content = trouble?.kind === 'other-content' ? trouble.content : whole;
  const etag = trouble?.kind === 'other-content' ? trouble.etag : `"${sha256(whole).slice(0, 16)}"`;
  const asked = /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
  const isSame = request.headers['if-range'] === undefined || request.headers['if-range'] === etag;
  let from = asked && isSame && trouble?.kind !== 'ignore-range' ? Number(asked[1]) : 0;
  const partBytes = content.length - from;
  if (trouble?.kind === 'wrong-part' && asked) from = Math.max(0, from - 10);
  if (from > content.length)
    return void response.writeHead(416, { 'content-range': `bytes */${content.length}` }).end();
  const isPart = asked !== null && (from > 0 || trouble?.kind === 'wrong-part');
  const body = content.subarray(from, trouble?.kind === 'truncate' ? trouble.toBytes : from + partBytes);
  response.writeHead(isPart ? 206 : 200, {
    etag,
    'content-length': body.length,
    ...(isPart ? { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` } : {}),
  });
  breaking.atBytes = Number.POSITIVE_INFINITY;
  const breakAfterBytes =
    trouble?.kind === 'break'
      ? trouble.afterBytes
      : trouble?.kind === 'other-content'
        ? trouble.breakAfterBytes
        : undefined;
  if (breakAfterBytes === undefined) {
    sendBody(response, body, trouble);
    return;
  }
  breaking.atBytes = from + breakAfterBytes;
  breaking.now = () => response.destroy();
  response.write(body.subarray(0, breakAfterBytes));
}

function sendBody(response: ServerResponse, body: Buffer, trouble: Trouble | undefined): void {
  if (trouble?.kind === 'hang') {
    response.write(body.subarray(0, trouble.afterBytes));
  } else if (trouble?.kind === 'trickle') {
    let at = 0;
    const timer = setInterval(() => response.write(body.subarray(at, ++at)), 5);
    response.on('close', () => clearInterval(timer));
  } else {
    response.end(body);
  }
}

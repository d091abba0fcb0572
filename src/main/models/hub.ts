/** The Hugging Face Hub, as far as a download needs it: the list of a repository's files, and their addresses. */
import { z } from 'zod';
import type { HttpClient } from './http-client.js';
import type { HubFile } from './hub-choice.js';
import { ModelError } from './model-error.js';

type Environment = Readonly<Record<string, string | undefined>>;

const DEFAULT_ENDPOINT = 'https://huggingface.co';
/** Pages of the file list, 1,000 entries each: no model repository is larger. Chosen. */
const PAGES_MAX = 20;
/** Chosen: a page of 1,000 entries is below 400 kB. */
const PAGE_BYTES_MAX = 8 * 1024 * 1024;

const treePage = z.array(
  z.object({
    type: z.string(),
    path: z.string(),
    size: z.number().int().nonnegative().default(0),
    lfs: z.object({ oid: z.string(), size: z.number().int().nonnegative() }).optional(),
  }),
);

export class Hub {
  readonly endpoint: string;
  private readonly token: string | undefined;

  /** Reads HF_ENDPOINT and HF_TOKEN. */
  constructor(
    private readonly client: HttpClient,
    env: Environment,
  ) {
    this.endpoint = (env.HF_ENDPOINT || DEFAULT_ENDPOINT).replace(/\/+$/, '');
    this.token = env.HF_TOKEN || env.HUGGING_FACE_HUB_TOKEN || undefined;
  }

  get headers(): Record<string, string> {
    return this.token ? { authorization: `Bearer ${this.token}` } : {};
  }

  fileUrl(repo: string, revision: string, path: string): string {
    return `${this.endpoint}/${repo}/resolve/${encodeURIComponent(revision)}/${path.split('/').map(encodeURIComponent).join('/')}`;
  }

  /** All files of a revision. @throws ModelError unauthorized, not_found, unreachable. */
  async listFiles(repo: string, revision: string, signal?: AbortSignal): Promise<HubFile[]> {
    const files: HubFile[] = [];
    let url: string | null = `${this.endpoint}/api/models/${repo}/tree/${encodeURIComponent(revision)}?recursive=true`;
    for (let page = 0; url !== null && page < PAGES_MAX; page++) {
      const { text, next } = await this.getPage(url, repo, signal);
      files.push(...parsePage(text, this.endpoint));
      url = next;
    }
    return files;
  }

  /** True when the Hub answers for this file quickly; says nothing about why not. */
  async hasFile(repo: string, revision: string, path: string, signal?: AbortSignal): Promise<boolean> {
    try {
      const answer = await this.client.get(this.fileUrl(repo, revision, path), this.headers, signal, 'HEAD');
      await answer.body.dump();
      return answer.status < 400;
    } catch {
      return false;
    }
  }

  /** Words for an answer that another try does not change; null where it may. */
  refusal(repo: string, status: number): ModelError | null {
    if (status === 401 || status === 403) {
      return new ModelError(
        'unauthorized',
        this.token
          ? `${repo} is private or gated and HF_TOKEN may not read it: ask for access at ${this.endpoint}/${repo}`
          : // The Hub answers 401 for names that do not exist, too, so that nobody can probe for private ones.
            `${repo} does not exist on the Hub, or is private or gated: check the name, ask for access at ${this.endpoint}/${repo} and set HF_TOKEN`,
      );
    }
    if (status === 404)
      return new ModelError('not_found', `${repo} or this file of it does not exist on ${this.endpoint}`);
    return null;
  }

  private async getPage(
    url: string,
    repo: string,
    signal?: AbortSignal,
  ): Promise<{ text: string; next: string | null }> {
    const { status, headers, body } = await this.client.get(url, this.headers, signal);
    if (status !== 200) {
      await body.dump();
      throw this.refusal(repo, status) ?? new ModelError('unreachable', `${new URL(url).host} answers ${status}`);
    }
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      sizeBytes += chunk.length;
      if (sizeBytes > PAGE_BYTES_MAX)
        throw new ModelError('unreachable', `${new URL(url).host} sends a file list without end`);
      chunks.push(chunk);
    }
    const next = /<([^>]+)>;\s*rel="next"/.exec(String(headers.link ?? ''))?.[1];
    // The token goes with the next page, so that page must be the same host's.
    const isOwn = next !== undefined && new URL(next, url).origin === new URL(url).origin;
    return { text: Buffer.concat(chunks).toString('utf8'), next: isOwn ? new URL(next, url).href : null };
  }
}

function parsePage(text: string, endpoint: string): HubFile[] {
  let entries: z.output<typeof treePage>;
  try {
    entries = treePage.parse(JSON.parse(text));
  } catch (error) {
    throw new ModelError('unreachable', `${endpoint} does not answer like a Hub`, { cause: error });
  }
  return entries
    .filter(({ type, path }) => type === 'file' && isSafePath(path))
    .map(({ path, size, lfs }) => ({
      path,
      sizeBytes: lfs?.size ?? size,
      sha256: lfs?.oid.replace(/^sha256:/, '') ?? null,
    }));
}

/** The path becomes part of a path in the cache folder: it must not lead out of it. */
function isSafePath(path: string): boolean {
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !/[\\:\0]/.test(part));
}

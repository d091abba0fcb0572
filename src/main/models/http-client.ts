/** HTTP for downloads: redirects followed by hand, so that a token never goes to another host. */
import { type Dispatcher, EnvHttpProxyAgent, request } from 'undici';
import { ModelError } from './model-error.js';
import { networkReason } from './network-error.js';

/** Chosen: the Hub answers with one redirect to its storage, mirrors add one or two. */
const REDIRECTS_MAX = 8;

export interface HttpTimeouts {
  /** Name lookup and connection. */
  connectMs: number;
  /** From the request to the head of its answer. */
  headersMs: number;
}

/** Chosen: a reachable Hub connects in well under a second, and the first start should not hang where there is none. */
export const DEFAULT_TIMEOUTS: HttpTimeouts = { connectMs: 3_000, headersMs: 20_000 };

export interface HttpAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Dispatcher.ResponseData['body'];
}

/** One client for a download's life. Honours HTTP_PROXY, HTTPS_PROXY and NO_PROXY. Close it, or its sockets keep the process. */
export class HttpClient {
  private readonly dispatcher: Dispatcher;

  constructor(timeouts: HttpTimeouts = DEFAULT_TIMEOUTS) {
    this.dispatcher = new EnvHttpProxyAgent({
      connect: { timeout: timeouts.connectMs },
      headersTimeout: timeouts.headersMs,
      // Idle bodies are watched by rate (stall-watch.ts), which also sees a body that trickles.
      bodyTimeout: 0,
    });
  }

  /**
   * Requests `url` and follows redirects. The body must be read or dumped by the caller.
   * @throws ModelError unreachable when there is no answer.
   */
  async get(
    url: string,
    headers: Record<string, string>,
    signal?: AbortSignal,
    method: 'GET' | 'HEAD' = 'GET',
  ): Promise<HttpAnswer> {
    let target = new URL(url);
    let sent = headers;
    for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
      const answer = await this.send(target, method, sent, signal);
      const location = answer.headers.location;
      if (answer.status < 300 || answer.status >= 400 || typeof location !== 'string') return answer;
      await answer.body.dump();
      const next = new URL(location, target);
      if (next.protocol !== 'https:' && next.protocol !== 'http:') {
        throw new ModelError('unreachable', `${target.host} redirects to ${next.protocol}, which is refused`);
      }
      // Also where the same host goes from https to http: the token would cross the network in the clear.
      if (next.host !== target.host || next.protocol !== target.protocol) sent = withoutCredentials(sent);
      target = next;
    }
    throw new ModelError('unreachable', `${target.host} redirects in a circle`);
  }

  async close(): Promise<void> {
    await this.dispatcher.destroy();
  }

  private async send(
    url: URL,
    method: 'GET' | 'HEAD',
    headers: Record<string, string>,
    signal?: AbortSignal,
  ): Promise<HttpAnswer> {
    try {
      const {
        statusCode,
        headers: received,
        body,
      } = await request(url, {
        method,
        headers: { 'user-agent': 'plimsoll', ...headers },
        dispatcher: this.dispatcher,
        ...(signal ? { signal } : {}),
      });
      return { status: statusCode, headers: received, body };
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new ModelError('unreachable', `${url.host} cannot be reached (${networkReason(error)})`, { cause: error });
    }
  }
}

function withoutCredentials(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => !['authorization', 'cookie', 'proxy-authorization'].includes(name.toLowerCase()),
    ),
  );
}

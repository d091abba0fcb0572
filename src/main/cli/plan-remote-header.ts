/** The shape of a model that lies on the Hub: its first megabytes hold the header, so nobody has to download 40 GB to learn that they do not fit. */
import { type ByteSource, GgufFormatError } from '../../shared/memory/gguf-cursor.js';
import { type GgufHeader, readGgufHeader } from '../../shared/memory/gguf-header.js';
import type { ModelShape } from '../../shared/memory/model-shape.js';
import { HttpClient } from '../models/http-client.js';
import { Hub } from '../models/hub.js';
import { chooseHubFiles, type HubFile } from '../models/hub-choice.js';
import { ModelError } from '../models/model-error.js';
import { parseModelSpec } from '../models/model-spec.js';
import { asModelError } from '../models/network-error.js';
import { CliError } from './cli-error.js';
import type { Environment } from './parse.js';
import { asShape } from './plan-model.js';

/** Read at first, and then ever more of it. Chosen: vocabularies of 50,000 tokens take 2 MB, of 260,000 some 16 MB. */
const HEAD_BYTES: readonly number[] = [4, 24, 128].map((mib) => mib * 2 ** 20);
/** For the whole of it. Chosen: 128 MB at 10 Mbit/s. */
const TIMEOUT_MS = 120_000;
const REVISION = 'main';

interface RemoteModel {
  repo: string;
  revision: string;
  files: HubFile[];
}

/** @throws ModelError or CliError with one line: what is missing, and how to get the model itself. */
export async function readRemoteShape(text: string, env: Environment): Promise<ModelShape> {
  const client = new HttpClient();
  const hub = new Hub(client, env);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const { repo, revision, files } = await findModel(text, hub, signal);
    const [first] = files;
    const header = await readHead(client, hub, { repo, revision, file: first }, signal);
    const totalBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
    const weightsBytes =
      files.length === 1 && header.tensorBytes !== null ? header.tensorBytes : totalBytes - header.headerBytes;
    return asShape(text, header, weightsBytes);
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw withRemedy(text, asModelError(error, signal));
  } finally {
    await client.close();
  }
}

function withRemedy(text: string, error: unknown): unknown {
  if (!(error instanceof ModelError)) return error;
  const isLate = error.code === 'cancelled';
  const reason = isLate ? `no answer in ${TIMEOUT_MS / 1000} s` : error.message;
  return new ModelError(
    isLate ? 'unreachable' : error.code,
    `${text} is not downloaded, and its header cannot be read: ${reason} (plimsoll pull ${text} downloads a model)`,
    { cause: error },
  );
}

async function findModel(text: string, hub: Hub, signal: AbortSignal): Promise<RemoteModel> {
  const spec = parseModelSpec(text);
  if (spec.kind === 'hub') {
    const files = chooseHubFiles(await hub.listFiles(spec.repo, REVISION, signal), spec.repo, spec.quant);
    return { repo: spec.repo, revision: REVISION, files };
  }
  if (spec.kind === 'built-in' && spec.entry.hub) {
    const { hub: place, sizeBytes, sha256 } = spec.entry;
    return { repo: place.repo, revision: place.revision, files: [{ path: place.file, sizeBytes, sha256 }] };
  }
  throw new ModelError('not_found', 'it is on no Hub');
}

async function readHead(
  client: HttpClient,
  hub: Hub,
  { repo, revision, file }: { repo: string; revision: string; file: HubFile },
  signal: AbortSignal,
): Promise<GgufHeader> {
  for (const most of HEAD_BYTES) {
    const wanted = Math.min(most, file.sizeBytes);
    const url = hub.fileUrl(repo, revision, file.path);
    const { status, body } = await client.get(url, { ...hub.headers, range: `bytes=0-${wanted - 1}` }, signal);
    if (status !== 206 && status !== 200) {
      await body.dump();
      throw hub.refusal(repo, status) ?? new ModelError('unreachable', `${new URL(url).host} answers ${status}`);
    }
    const head = await firstBytes(body, wanted);
    try {
      return readGgufHeader(new HeadSource(head, file.sizeBytes));
    } catch (error) {
      const isWhole = head.length < wanted || wanted === file.sizeBytes || most === HEAD_BYTES.at(-1);
      if (!(error instanceof GgufFormatError) || isWhole) throw asInvalid(error);
    }
  }
  throw new ModelError('invalid_file', 'its header is too long');
}

function asInvalid(error: unknown): unknown {
  return error instanceof GgufFormatError ? new ModelError('invalid_file', error.message, { cause: error }) : error;
}

/** A server that does not know ranges sends the whole file: what is not needed is not waited for. */
async function firstBytes(body: AsyncIterable<Buffer>, most: number): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= most) break;
  }
  return Buffer.concat(chunks).subarray(0, most);
}

class HeadSource implements ByteSource {
  constructor(
    private readonly head: Uint8Array,
    readonly sizeBytes: number,
  ) {}

  read(offset: number, lengthBytes: number): Uint8Array {
    return this.head.subarray(offset, offset + lengthBytes);
  }
}

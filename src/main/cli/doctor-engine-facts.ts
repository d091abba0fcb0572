/**
 * Engine, addon, devices and readings, looked at in a process of its own: a library for another processor or a driver that hangs ends
 * that one, and the doctor lives to tell.
 */
import { execFile } from 'node:child_process';
import type { EngineFacts } from './doctor-facts.js';
import type { Environment } from './parse.js';

/** Chosen: a first start of a GPU driver takes some seconds. */
const TIMEOUT_MS = 30_000;
const OUTPUT_BYTES_MAX = 1 << 20;

export function engineFacts(env: Environment): Promise<EngineFacts> {
  const code = `import(${JSON.stringify(import.meta.url)}).then((facts) => facts.reportEngine())`;
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--input-type=module', '--eval', code],
      { env: { ...env }, timeout: TIMEOUT_MS, killSignal: 'SIGKILL', maxBuffer: OUTPUT_BYTES_MAX },
      (error, stdout, stderr) => resolve(parsed(stdout) ?? { problem: whyEnded(error, stderr) }),
    );
  });
}

/** In the child: one line of JSON on stdout. */
export async function reportEngine(): Promise<void> {
  process.stdout.write(`${JSON.stringify(await lookAtEngine())}\n`);
}

async function lookAtEngine(): Promise<EngineFacts> {
  const { loadNativeAddon } = await import('../../shared/addon-loader.js');
  const { NativeEngine } = await import('../../workers/native-engine.js');
  try {
    const { addon, engine: folder, engineVersion } = loadNativeAddon();
    const engine = new NativeEngine();
    const facts: EngineFacts = {
      problem: null,
      folder: folder.path,
      version: engineVersion,
      devices: engine.devices(),
      readings: engine.readings(),
      gpuWiredLimitBytes: addon.hostReadings().gpuWiredLimitBytes,
    };
    engine.close();
    return facts;
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function parsed(stdout: string): EngineFacts | null {
  try {
    return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as EngineFacts;
  } catch {
    return null;
  }
}

function whyEnded(error: (Error & { killed?: boolean; signal?: string | null }) | null, stderr: string): string {
  if (error?.killed) return `loading the engine takes more than ${TIMEOUT_MS / 1000} s: a driver may hang`;
  if (error?.signal) {
    return `loading the engine ended the process with ${error.signal}: it was built for another processor, or its driver is broken`;
  }
  return `the engine cannot be looked at: ${stderr.trim().split('\n').at(-1) || (error?.message ?? 'no answer')}`;
}

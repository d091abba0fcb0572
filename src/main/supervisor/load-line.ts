/** The server process's side of the lowered line: what to keep, why, and how long it has held. */
import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../../shared/config.js';
import { findEngineFolder } from '../../shared/engine-folder.js';
import { cacheFolder } from '../models/cache-folder.js';
import { readLineFile, removeLineFile, writeLineFile } from './line-file.js';
import { type LineRecord, type LineSubject, workedLine } from './line-record.js';
import { type LineView, WHOLE_LINE } from './line-view.js';
import type { SupervisorLink } from './supervisor-link.js';

/** Time counts as worked when steps ran in it. Chosen: short enough that a server used now and then gets its hours together. */
const WORK_INTERVAL_MS = 10 * 60_000;
const GIB = 2 ** 30;

export interface LoadLineOptions {
  config: Config;
  modelPath: string;
  link: SupervisorLink;
  log: Pick<Logger, 'warn' | 'info'>;
  cacheDir?: string;
  intervalMs?: number;
}

export class LoadLine {
  /** What to plan for, as a share of the limit. */
  readonly fraction: number;
  private readonly file: string;
  private readonly record: LineRecord | null;
  private keptFraction: number;
  private timer: NodeJS.Timeout | null = null;

  /** Reads what is remembered, says so, and tells the supervisor what a death would lower. */
  constructor(private readonly options: LoadLineOptions) {
    const { config, modelPath, link, log } = options;
    const { file, subject } = lineOf(config, modelPath, options.cacheDir ?? cacheFolder());
    this.file = file;
    const remembered = link.birth.carried?.path === file ? link.birth.carried.record : readLineFile(file);
    const isExplicit = config.memoryFraction !== 'auto';
    this.record = isExplicit ? null : remembered;
    this.fraction = this.record?.fraction ?? 1;
    this.keptFraction = this.fraction;
    if (remembered !== null) {
      const story = `${percent(remembered.fraction)} of the memory limit since ${remembered.since} (${remembered.because})`;
      if (isExplicit) {
        log.warn(
          `the lowered line of ${story} is not kept: --mem-fraction-static ${config.memoryFraction} is explicit`,
        );
      } else log.warn(`the line is lowered: ${story}; removing ${file} forgets it`);
    }
    // An explicit share is the user's own line: a death lowers nothing that would be kept.
    if (!isExplicit) link.line({ path: file, fraction: this.fraction, subject });
  }

  /** The plan was made for `fraction`: more than asked for, where nothing fits under that. */
  planned(fraction: number): void {
    this.keptFraction = fraction;
    if (fraction <= this.fraction) return;
    this.options.log.warn(
      `no plan fits under ${percent(this.fraction)} of the memory limit: the line is at ${percent(fraction)}, the lowest that has one`,
    );
  }

  view(): LineView {
    if (this.record === null) return WHOLE_LINE;
    return { fraction: this.keptFraction, lowered_because: this.record.because, since: this.record.since };
  }

  /** Counts the time in which `steps` grows, and raises the remembered line with it: the next start keeps the higher one. */
  watch(steps: () => number): void {
    if (this.record === null) return;
    const intervalMs = this.options.intervalMs ?? WORK_INTERVAL_MS;
    let before = steps();
    this.timer = setInterval(() => {
      const now = steps();
      if (now > before) this.worked(intervalMs);
      before = now;
    }, intervalMs);
    this.timer.unref();
  }

  close(): void {
    if (this.timer) clearInterval(this.timer);
  }

  private worked(ms: number): void {
    // Read anew: who removed the file wants it forgotten, and another server of this model may have lowered it further.
    const record = readLineFile(this.file);
    if (record === null) return;
    const next = workedLine(record, ms);
    try {
      if (next === null) removeLineFile(this.file);
      else writeLineFile(this.file, next);
    } catch {
      return;
    }
    if (next?.fraction === record.fraction) return;
    this.options.log.info(
      `the line held: from the next start on it is at ${percent(next?.fraction ?? 1)} of the memory limit`,
    );
  }
}

function percent(fraction: number): string {
  return `${Math.round(fraction * 1000) / 10} %`;
}

/** What one remembered line is for: the model's file, the devices as chosen, the engine's build, and a machine with its memory. */
function lineOf(config: Config, modelPath: string, cacheDir: string): { file: string; subject: LineSubject } {
  const subject: LineSubject = {
    model: path.basename(modelPath).slice(0, 255),
    devices: config.devices.length > 0 ? [...config.devices].sort().join(',').slice(0, 255) : 'auto',
    machine: os.hostname().slice(0, 255),
  };
  // A cgroup's limit makes another machine of it. RAM as reported differs a little from one kernel to the next.
  const limitBytes = Math.min(
    process.constrainedMemory() || Number.POSITIVE_INFINITY,
    Math.round(os.totalmem() / GIB) * GIB,
  );
  const key = [
    ...[subject.model, statSync(modelPath).size],
    ...[subject.devices, config.gpuLayers, engineName()],
    ...[subject.machine, process.platform, process.arch, limitBytes],
  ];
  const hash = createHash('sha256').update(JSON.stringify(key)).digest('hex').slice(0, 32);
  return { file: path.join(cacheDir, 'load-line', `${hash}.json`), subject };
}

/** The engine's folder tells which devices it can use. That there is none is for the one to say who loads it. */
function engineName(): string {
  try {
    return path.basename(findEngineFolder().path);
  } catch {
    return '';
  }
}

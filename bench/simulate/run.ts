/**
 * `make bench-simulate`: the scheduler and planner that serve, on machines that are not here. Writes docs/simulation.md and its pictures.
 * Argument: hours of office load a machine (2).
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { MODELS, type SimulationResult } from '../../src/shared/simulation/index.js';
import { conditions } from '../measure/machine.js';
import { formatNumber } from '../measure/statistics.js';
import { eightHours, FIELD_LIMIT_BYTES, machineNamed, OFFICES, type OfficeCase, office } from './loads.js';
import { page } from './page.js';
import { cachedOverHours, chunkAgainstMemory, peakAgainstChunk } from './pictures.js';

const hours = Number(process.argv[2] ?? 2);
const where = conditions();
const GB = 1e9;

function picture(name: string, svg: string): void {
  const folder = path.join('docs', 'pictures');
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, `${name}.svg`), svg);
  process.stderr.write(`docs/pictures/${name}.svg\n`);
}

function officeRow(which: OfficeCase): string[] {
  const result = office(which, hours);
  if (result.crash !== null) throw new Error(`${which.profile}: ${result.crash}`);
  process.stderr.write(`${which.profile}: ${result.requestsPerHour} requests an hour\n`);
  const { plan } = result;
  return [
    which.profile,
    MODELS[which.model].shape.name,
    `${formatNumber(plan.contextTokens, 0)} / ${formatNumber(plan.poolTokens, 0)}`,
    String(plan.runningCap),
    formatNumber(plan.chunkTokens, 0),
    formatNumber(result.requestsPerHour, 0),
    `${seconds(result.waits.p50)} / ${seconds(result.waits.p95)}`,
    `${seconds(result.firstTokens.p50)} / ${seconds(result.firstTokens.p95)}`,
    ...memoryCells(result),
  ];
}

function hoursRow(name: string, result: SimulationResult): string[] {
  if (result.crash !== null) throw new Error(`${name}: ${result.crash}`);
  const last = result.moments.slice(-60);
  const filled = last.reduce((sum, moment) => sum + moment.cachedBytes / moment.kvBytes, 0) / last.length;
  return [
    name,
    String(result.ends.done ?? 0),
    `${formatNumber(filled * 100, 0)} %`,
    `${result.evictionsBeforePrefill} of ${result.evictions}`,
    ...memoryCells(result).slice(2),
  ];
}

function memoryCells(result: SimulationResult): string[] {
  return [
    String(result.evictions),
    String(result.replans.length),
    `${formatNumber(result.repeatHitRate * 100, 0)} %`,
    `${formatNumber(result.peakUsedBytes / GB, 2)} of ${formatNumber(result.limitBytes / GB, 2)} GB`,
    `${formatNumber((result.peakUsedBytes / result.limitBytes) * 100, 1)} %`,
  ];
}

function seconds(ms: number): string {
  return `${formatNumber(ms / 1000, 1)} s`;
}

const officeRows = OFFICES.map(officeRow);
const field = eightHours(machineNamed('m4-pro-24gb', FIELD_LIMIT_BYTES), 'm4-pro', 'qwen3-30b-a3b-4bit', 8);
const report = eightHours(machineNamed('m4-max-64gb'), 'm4-max', 'half-of-70b', 16);
const hoursRows = [hoursRow('24 GB, Qwen3 30B-A3B', field), hoursRow('64 GB, 31 GB share of a 70B model', report)];
picture('peak-against-chunk', peakAgainstChunk());
picture('chunk-against-memory', chunkAgainstMemory());
picture('cached-24gb', cachedOverHours('Cached prefixes over eight hours: 24 GB Mac, Qwen3 30B-A3B', field));
picture('cached-64gb', cachedOverHours('Cached prefixes over eight hours: 64 GB Mac, 31 GB of weights', report));
const text = page({ conditions: where, hours, officeRows, hoursRows });
writeFileSync(path.join('docs', 'simulation.md'), text);
process.stdout.write(text);
